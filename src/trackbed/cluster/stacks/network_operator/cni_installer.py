"""DaemonSet that installs CNI plugins which the Network Operator installs only together with its SR-IOV operator.

It runs the plugins' own images: each copies its binary to /host/opt/cni/bin and sleeps.
"""

from collections.abc import Iterable
from typing import Any

from trackbed.cluster.stacks.groups import get_node_labels
from trackbed.cluster.stacks.network_operator.policy import build_image_fields
from trackbed.cluster.stacks.objects import Manifest, build_manifest
from trackbed.cluster.stacks.stack import ROLLED_OUT, Wait
from trackbed.fabric.plan.plan import Plan

NAME = "rail-cni-plugins"


def build_daemon_set(plan: Plan, namespace: str, image_names: Iterable[str]) -> Manifest:
    """Return a DaemonSet that installs plugins, by the release catalogue's names of their images, on the nodes."""
    labels = {"app.kubernetes.io/name": NAME}
    pod = {
        "nodeSelector": get_node_labels(plan),
        "tolerations": [{"operator": "Exists"}],
        "containers": [_build_container(plan, name) for name in image_names],
        "volumes": [{"name": "cni-bin", "hostPath": {"path": "/opt/cni/bin"}}],
    }
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    return build_manifest("apps/v1", "DaemonSet", NAME, namespace, labels=labels, spec=spec)


def build_wait(namespace: str) -> Wait:
    """Return the wait until the plugins are installed on all nodes."""
    return Wait(f"daemonset/{NAME}", ROLLED_OUT, namespace)


def _build_container(plan: Plan, image_name: str) -> dict[str, Any]:
    fields = build_image_fields(plan, image_name)
    return {
        "name": image_name,
        "image": f"{fields['repository']}/{fields['image']}:{fields['version']}",
        "resources": {"requests": {"cpu": "10m", "memory": "15Mi"}},
        "volumeMounts": [{"name": "cni-bin", "mountPath": "/host/opt/cni/bin"}],
    }
