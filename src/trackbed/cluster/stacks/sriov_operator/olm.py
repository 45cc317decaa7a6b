"""Operators on OpenShift come by subscription: Namespace, OperatorGroup, Subscription (operators.coreos.com).

Follows the OpenShift documentation, "Installing the SR-IOV Network Operator", and NVIDIA's "Network Operator on
OpenShift". A subscription without a channel takes the package's default one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trackbed.cluster.stacks.objects import Manifest, manifest

MARKETPLACE = "openshift-marketplace"


@dataclass(frozen=True, slots=True)
class Package:
    """An operator of a catalogue source, and the namespace it goes to."""

    name: str
    source: str
    namespace: str


SRIOV = Package("sriov-network-operator", "redhat-operators", "openshift-sriov-network-operator")
NFD = Package("nfd", "redhat-operators", "openshift-nfd")
NVIDIA = Package("nvidia-network-operator", "certified-operators", "nvidia-network-operator")


def subscribed(package: Package) -> Iterator[Manifest]:
    """The objects that have OLM install an operator into its own namespace."""
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    yield manifest("v1", "Namespace", package.namespace, labels=labels)
    group = {"targetNamespaces": [package.namespace]}
    yield manifest("operators.coreos.com/v1", "OperatorGroup", package.name, package.namespace, spec=group)
    wanted = {"name": package.name, "source": package.source, "sourceNamespace": MARKETPLACE}
    yield manifest("operators.coreos.com/v1alpha1", "Subscription", package.name, package.namespace, spec=wanted)
