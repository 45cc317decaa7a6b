"""SriovOperatorConfig: where the operator's daemon runs, and which of its webhooks."""

from __future__ import annotations

from trackbed.cluster.stacks.groups import selector
from trackbed.cluster.stacks.objects import Manifest, manifest
from trackbed.cluster.stacks.sriov import API
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
