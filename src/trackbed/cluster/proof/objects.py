"""The objects of a proof: one pod for each node, with the rails that jobs get, and a mailbox for each pod.

    shared      the program (a ConfigMap), and a service account that may read and write the mailboxes alone
    mailbox     a ConfigMap; see `fleet.mailbox`, also for the pod's key
    pod         bound to its node through the scheduler, as a DaemonSet's pods are, so that devices are counted

All have the label PROOF with the run's name, by which they are removed. A pod has neither more rights nor more devices
than a pod of a job, and no GPU unless one is tested. It ends by itself where nobody waits for it any more.
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from trackbed.cluster.jobs.inject import inject_rails
from trackbed.cluster.jobs.requirements import PodRequirements
from trackbed.cluster.resources.railnode import UNPROVED_TAINT
from trackbed.cluster.stacks.objects import Manifest, build_manifest
from trackbed.fabric.gpus import GPU_RESOURCES
from trackbed.fabric.plan.plan import CommonPlan
from trackbed.fleet import boot
from trackbed.fleet.mailbox import KEY_VARIABLE, NAME_VARIABLE
from trackbed.fleet.task import HostTask

PROOF = "trackbed.dev/proof"
"""Label of all objects of a proof."""
IDLE_SECONDS = 600
"""How long a pod waits for its next sheet."""
_MEMORY = "1Gi"
"""A pod with huge pages has to request memory too."""
_FOLDER, _FILE = "/run/trackbed-proof", "payload"


class ProofSite(NamedTuple):
    """A run of a proof, and where its pods run."""

    name: str
    """Name of the run, and prefix of the names of its objects."""
    namespace: str
    image: str
    """An image with Python 3.9 or newer, rping and perftest."""
    requirements: PodRequirements
    seconds: int
    """Time after which kubelet ends a pod that still runs."""
    secret: bytes
    """What the keys of the pods follow from; of this run alone."""
    common: CommonPlan
    """Whose rails the pods have addresses of."""
    gpus: Mapping[str, Mapping[str, int]] = MappingProxyType({})
    """Node -> limits of its pod's GPUs, by their resource; no pod of another node gets one."""

    def name_pod(self, index: int) -> str:
        """Return the name of a node's pod, and of its mailbox, by the node's number."""
        return f"{self.name}-{index}"

    def derive_key(self, index: int) -> str:
        """Return the key of a node's pod, in hexadecimal: no other key follows from it."""
        return hmac.new(self.secret, self.name_pod(index).encode(), "sha256").hexdigest()


def build_shared(site: ProofSite, nodes: int) -> list[Manifest]:
    """Return what all pods of a proof use, in the order of creation."""
    task = HostTask("prove-in-pod", site.name, None, {}, "none", IDLE_SECONDS)
    payload = b64encode(boot.build_payload(task, has_compiled=False)).decode()
    mailboxes = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [site.name_pod(index) for index in range(nodes)],
        "verbs": ["get", "list", "watch", "patch"],
    }
    subject = {"kind": "ServiceAccount", "name": site.name, "namespace": site.namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": site.name}
    return [
        _build(site, "v1", "ConfigMap", site.name, binaryData={_FILE: payload}),
        _build(site, "v1", "ServiceAccount", site.name),
        _build(site, "rbac.authorization.k8s.io/v1", "Role", site.name, rules=[mailboxes]),
        _build(site, "rbac.authorization.k8s.io/v1", "RoleBinding", site.name, roleRef=role, subjects=[subject]),
    ]


def build_mailbox(site: ProofSite, index: int) -> Manifest:
    """Return the empty mailbox of a pod."""
    return _build(site, "v1", "ConfigMap", site.name_pod(index))


def build_pod(site: ProofSite, index: int, node: str) -> Manifest:
    """Return the pod of a node, with all rails of the plan.

    A container that died is started again in the same pod, so that it keeps its addresses and devices.
    """
    environment = {NAME_VARIABLE: site.name_pod(index), KEY_VARIABLE: site.derive_key(index)}
    container: dict[str, Any] = {
        "name": "proof",
        "image": site.image,
        "command": boot.build_container_command(f"{_FOLDER}/{_FILE}"),
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "securityContext": {"runAsUser": 0},  # an image may say otherwise, and IPC_LOCK has no effect for others
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "program", "mountPath": _FOLDER, "readOnly": True}],
    }
    access, gpus = site.requirements.access, site.gpus.get(node, {})
    tolerated = dict.fromkeys((*GPU_RESOURCES.values(), site.requirements.gpu_resource, *gpus, UNPROVED_TAINT))
    resources: dict[str, dict[str, object]] = {}
    if access.hugepages:
        resources["requests"] = {"memory": _MEMORY}
    if gpus:
        resources["limits"] = dict(gpus)
    if resources:
        container["resources"] = resources
    spec = {
        "serviceAccountName": site.name,
        "restartPolicy": "OnFailure",
        "activeDeadlineSeconds": site.seconds,
        "terminationGracePeriodSeconds": 1,
        "enableServiceLinks": False,
        "affinity": {"nodeAffinity": _require_node(node)},
        "tolerations": [{"key": key, "operator": "Exists"} for key in tolerated],
        "containers": [container],
        "volumes": [{"name": "program", "configMap": {"name": site.name}}],
    }
    pod = _build(site, "v1", "Pod", site.name_pod(index), spec=spec)
    inject_rails(pod, site.requirements, site.namespace)
    return pod


def _require_node(node: str) -> Mapping[str, Any]:
    """Return the affinity to one node by its name: a node's label kubernetes.io/hostname may differ from it."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}


def _build(site: ProofSite, api_version: str, kind: str, name: str, **sections: Any) -> Manifest:  # noqa: ANN401 - as build_manifest
    return build_manifest(api_version, kind, name, site.namespace, labels={PROOF: site.name}, **sections)
