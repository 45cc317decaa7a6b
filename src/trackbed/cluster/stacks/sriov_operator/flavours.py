"""What OpenShift and upstream share: the operator's configuration, and the refusal of partitions."""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.cluster.stacks.groups import selector
from trackbed.cluster.stacks.objects import Manifest, manifest
from trackbed.cluster.stacks.sriov import API
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan

PREFIX = "openshift.io"
"""Resource prefix of the operator, unless its chart says otherwise."""


def operator_config(plan: Plan, namespace: str, *, webhooks: bool) -> Manifest:
    """The one configuration that the operator reads, called default.

    `webhooks`: the network resources injector, which adds resources to pods from their networks, and the validation of
    policies; both need certificates that OpenShift makes by itself and the upstream chart does not.
    """
    spec = {
        "configDaemonNodeSelector": selector(plan),
        "configurationMode": "daemon",
        "disableDrain": False,
        "enableInjector": webhooks,
        "enableOperatorWebhook": webhooks,
        "logLevel": 2,
    }
    return manifest(API, "SriovOperatorConfig", "default", namespace, spec=spec)


def refused_pkey(plan: Plan) -> Iterator[Problem]:
    """A problem where the Fabric wants a PKey, which a SriovIBNetwork cannot name."""
    if plan.kubernetes.pkey is not None:
        message = (
            "a SriovIBNetwork names no PKey, and this stack has no ib-kubernetes to set one: leave out "
            "kubernetes.pkey, or take network-operator-ib-sriov"
        )
        yield Problem("stack-pkey", message, ("spec", "kubernetes", "pkey"))
