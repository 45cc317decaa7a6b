"""Subscriptions to operators on OpenShift: Namespace, OperatorGroup, Subscription (operators.coreos.com).

Follows the OpenShift documentation, "Installing the SR-IOV Network Operator", and NVIDIA's "Network Operator on
OpenShift". A subscription without a channel uses the package's default.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from trackbed.cluster.stacks.objects import Manifest, build_manifest
from trackbed.cluster.stacks.stack import ForeignObjects


@dataclass(frozen=True, slots=True)
class OlmPackage:
    """A package of the Operator Lifecycle Manager: an operator, its catalogue source and its namespace."""

    name: str
    source: str
    namespace: str


SRIOV = OlmPackage("sriov-network-operator", "redhat-operators", "openshift-sriov-network-operator")
NFD = OlmPackage("nfd", "redhat-operators", "openshift-nfd")
NVIDIA = OlmPackage("nvidia-network-operator", "certified-operators", "nvidia-network-operator")


def describe_foreign_objects(package: OlmPackage) -> ForeignObjects:
    """Return the objects by which the namespace of an operator is in use: groups and subscriptions of other names.

    With a second OperatorGroup OLM fails every operator of the namespace (CSVReasonTooManyOperatorGroups of
    pkg/controller/operators/olm/operator.go).
    """
    kinds = ("OperatorGroup.operators.coreos.com", "Subscription.operators.coreos.com")
    return ForeignObjects(kinds, package.namespace, package.name)


def build_subscription(package: OlmPackage) -> Iterator[Manifest]:
    """Yield the objects by which OLM installs an operator in its own namespace."""
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    yield build_manifest("v1", "Namespace", package.namespace, labels=labels)
    group = {"targetNamespaces": [package.namespace]}
    yield build_manifest("operators.coreos.com/v1", "OperatorGroup", package.name, package.namespace, spec=group)
    wanted = {"name": package.name, "source": package.source, "sourceNamespace": "openshift-marketplace"}
    yield build_manifest("operators.coreos.com/v1alpha1", "Subscription", package.name, package.namespace, spec=wanted)
