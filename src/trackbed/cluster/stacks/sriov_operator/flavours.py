"""Functions shared by the upstream and the OpenShift stack: SriovOperatorConfig, and the refusal of PKeys."""

from collections.abc import Iterator

from trackbed.cluster.stacks.groups import get_node_labels
from trackbed.cluster.stacks.objects import Manifest, build_manifest
from trackbed.cluster.stacks.sriov import API
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan

PREFIX = "openshift.io"
"""Default resource prefix of the SR-IOV operator."""


def build_operator_config(plan: Plan, namespace: str, *, webhooks: bool) -> Manifest:
    """Return the SriovOperatorConfig, which must be named default.

    `webhooks` enables the network resources injector, which adds the resources of its networks to a pod, and the
    webhook that validates policies. Both need certificates, which OpenShift creates and the upstream chart does not.
    """
    spec = {
        "configDaemonNodeSelector": get_node_labels(plan),
        "configurationMode": "daemon",
        "disableDrain": False,
        "enableInjector": webhooks,
        "enableOperatorWebhook": webhooks,
        "logLevel": 2,
    }
    return build_manifest(API, "SriovOperatorConfig", "default", namespace, spec=spec)


def check_pkey(plan: Plan) -> Iterator[Problem]:
    """Yield a problem if the Fabric has a PKey, which a SriovIBNetwork cannot name."""
    if plan.kubernetes.pkey is not None:
        yield Problem(
            "stack-pkey",
            "a SriovIBNetwork names no PKey, and this stack has no ib-kubernetes to set one: leave out "
            "kubernetes.pkey, or take network-operator-ib-sriov",
            ("spec", "kubernetes", "pkey"),
        )
