"""Pods as people write them, legal and hostile, and what must have become of each: one table."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.cluster.webhook.values import container, pod
from trackbed.cluster.api.response import Object

RAILS, FABRIC = "trackbed.dev/rails", "trackbed.dev/fabric"
NETWORKS = "k8s.v1.cni.cncf.io/networks"
INJECT, INJECT_NETWORK = (f"cni.spidernet.io/{kind}-resource-inject" for kind in ("rdma", "network"))
ALL = {RAILS: "all"}
SPIDER = ALL | {FABRIC: "spiderpool"}

NAMESPACES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "plain": ({}, {}),
    "by-default": ({RAILS: "2", FABRIC: "spiderpool"}, {}),
    "for-native": ({FABRIC: "native"}, {}),
    "no-rails": ({RAILS: "none"}, {}),
    "from-spiderpool": ({INJECT: "spiderpool"}, {}),
    "from-spiderpool-underlay": ({INJECT_NETWORK: "spiderpool"}, {}),
    "is-baseline": ({}, {"pod-security.kubernetes.io/enforce": "baseline"}),
    "is-restricted": ({}, {"pod-security.kubernetes.io/enforce": "restricted"}),
    "is-privileged": ({}, {"pod-security.kubernetes.io/enforce": "privileged"}),
    "trackbed-system": ({RAILS: "all", FABRIC: "spiderpool"}, {}),
}
"""Namespace -> its annotations and labels."""

BEFORE = ("nowhere", {RAILS: "all", FABRIC: "nowhere"}, {RAILS: "default"})
"""A namespace that is there before the webhook, which would refuse it."""


def read(made: Object) -> dict[str, Any]:
    """What a pod carries for rails, in few words."""
    spec, annotations = made["spec"], made["metadata"].get("annotations", {})
    containers = [*spec["containers"], *spec.get("initContainers", ())]
    written = annotations.get(NETWORKS, "")
    return {
        "networks": [entry.get("interface") for entry in json.loads(written)] if written.startswith("[") else written,
        "resources": {container["name"]: _rails(container) for container in containers if _rails(container)},
        "claims": [claim["resourceClaimTemplateName"] for claim in spec.get("resourceClaims", ())],
        "ipc_lock": [container["name"] for container in containers if _adds(container)],
        "shm": [container["name"] for container in containers if "/dev/shm" in _mounts(container)],  # noqa: S108 - inside the pod
        "nodes": spec.get("nodeSelector", {}).get(FABRIC),
        "asked": annotations.get(RAILS),
        "fabric": annotations.get(FABRIC),
        "env": {item["name"]: {e["name"]: e.get("value") for e in item.get("env", ())} for item in containers},
        "made": made,
    }


def _rails(container: dict[str, Any]) -> dict[str, str]:
    """Limits that are no GPUs, no memory and so on; each must be requested too."""
    limits, requests = (container.get("resources", {}).get(key, {}) for key in ("limits", "requests"))
    rails = {name: value for name, value in limits.items() if "/" in name and not name.endswith("/gpu")}
    assert all(requests.get(name) == value for name, value in rails.items())
    return {name.partition("/")[2]: value for name, value in rails.items()}


def _adds(container: dict[str, Any]) -> bool:
    return "IPC_LOCK" in container.get("securityContext", {}).get("capabilities", {}).get("add", ())


def _mounts(container: dict[str, Any]) -> list[str]:
    return [mount["mountPath"] for mount in container.get("volumeMounts", ())]


@dataclass
class Row:
    """A pod and what must become of it: `refused` by these words, or let in with this."""

    pod: Object
    refused: str = ""
    warned: str = ""
    """Words of a warning."""
    carries: dict[str, Any] = field(default_factory=dict)
    """What `read` must say of it."""
    holds: Callable[[dict[str, Any]], bool] | None = None
    """More, of what `read` says."""


def nothing() -> dict[str, Any]:
    """A pod that was left alone."""
    return {"resources": {}, "claims": [], "ipc_lock": [], "shm": [], "nodes": None}


def rails(*numbers: int, of: str = "main") -> dict[str, Any]:
    """A pod with these rails of Fabric spiderpool, in container `of`."""
    return {
        "networks": [f"rail{number}" for number in numbers],
        "resources": {of: {f"rail{number}": "1" for number in numbers}},
        "ipc_lock": [of],
        "shm": [of],
        "nodes": "spiderpool",
        "fabric": "spiderpool",
    }


def asks(value: str, namespace: str = "plain", **spec: Any) -> Object:
    """A pod that asks for rails of Fabric spiderpool."""
    return pod(namespace, {RAILS: value, FABRIC: "spiderpool"}, **spec)


def with_networks(written: str, **spec: Any) -> Object:
    """A pod that has networks already."""
    return pod("plain", SPIDER | {NETWORKS: written}, **spec)


GPUS = {"nvidia.com/gpu": "8"}
MAIN = container("main", GPUS)
SIDE = container("side")
OWN_SHM: dict[str, Any] = {"volumes": [{"name": "mine", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}]}
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
TAKEN = "interface rail0 belongs to another network; network default/rail0 as interface rail0 was left out"


def main(**fields: Any) -> list[dict[str, Any]]:
    """The one container with more fields."""
    return [container("main", GPUS, **fields)]


ASKING = {
    "all rails": Row(asks("all"), carries=rails(0, 1, 2, 3) | {"asked": "all"}, warned="added 4 networks, 4 resources"),
    "how many": Row(asks("2"), carries=rails(0, 1)),
    "which": Row(asks("3,1"), carries=rails(1, 3)),
    "none": Row(asks("none"), carries=nothing()),
    "without a wish": Row(pod("plain"), carries=nothing()),
    "by default": Row(pod("by-default"), carries=rails(0, 1) | {"asked": "2"}),
    "by default, its own word": Row(pod("by-default", {RAILS: "1"}), carries=rails(0)),
    "by default, none": Row(pod("by-default", {RAILS: "none"}), carries=nothing()),
    "by default, it has a rail of its own choice": Row(
        pod("by-default", containers=[container("main", GPUS | {"spidernet.io/rail3": "1"})]),
        carries={"resources": {"main": {"rail3": "1"}}, "asked": None, "networks": ""},
    ),
    "by default, it has a network of its own choice": Row(
        pod("by-default", {NETWORKS: "default/rail3"}), carries=nothing() | {"networks": "default/rail3"}
    ),
    "by default, in the host's network": Row(
        pod("by-default", hostNetwork=True), carries=nothing(), warned="gives no rails to a pod with hostNetwork"
    ),
    "the namespace's default is none": Row(pod("no-rails"), carries=nothing()),
    "the namespace's default is none, the pod's is not": Row(
        pod("no-rails", {RAILS: "1", FABRIC: "spiderpool"}), carries=rails(0)
    ),
    "the namespace names the Fabric": Row(
        pod("for-native", ALL),
        carries={"resources": {"main": {f"rail{n}": "1" for n in range(4)}}, "networks": "", "fabric": "native"},
    ),
    "the pod names another Fabric than its namespace": Row(pod("for-native", SPIDER), carries=rails(0, 1, 2, 3)),
    "a wrong value": Row(asks("5"), refused=f'annotation {RAILS} is "5"; write all, none, how many from 1 to 4'),
    "an empty value": Row(asks(""), refused=f'annotation {RAILS} is "";'),
    "a hostile value": Row(
        asks("all\r\nWarning: 299 - you"), refused=f"annotation {RAILS} is too long or no plain text"
    ),
    "a huge value": Row(asks("1," * 50000), refused=f"annotation {RAILS} is too long or no plain text"),
    "other digits": Row(asks("\u0662"), refused=f"annotation {RAILS} is too long or no plain text"),
    "a path for a Fabric": Row(
        pod("plain", ALL | {FABRIC: "../native"}), refused=f'annotation {FABRIC} is "../native"'
    ),
    "no Fabric, of many": Row(pod("plain", ALL), refused=f"say which in annotation {FABRIC} of pod or namespace"),
    "a default of a Fabric that is not there": Row(pod("nowhere"), refused=f'annotation {FABRIC} is "nowhere"'),
    "our own namespace": Row(pod("trackbed-system"), carries=nothing()),
    "our own namespace, asked for": Row(pod("trackbed-system", SPIDER), carries=nothing()),
}

SPIDERPOOLS = {
    "Spiderpool's group": Row(pod("plain", {INJECT: "spiderpool"}), carries=rails(0, 1, 2, 3) | {"asked": "all"}),
    "Spiderpool's group of the namespace": Row(pod("from-spiderpool"), carries=rails(0, 1, 2, 3) | {"asked": "all"}),
    "Spiderpool's group for underlays": Row(pod("plain", {INJECT_NETWORK: "spiderpool"}), carries=rails(0, 1, 2, 3)),
    "Spiderpool's group for underlays, of the namespace": Row(
        pod("from-spiderpool-underlay"), carries=rails(0, 1, 2, 3)
    ),
    "Spiderpool's group, called otherwise": Row(
        pod("plain", {INJECT: "rdma-network", FABRIC: "spiderpool"}),
        carries=rails(0, 1, 2, 3),
        warned='no Fabric is called "rdma-network"',
    ),
    "Spiderpool's group of other networks": Row(pod("plain", {INJECT_NETWORK: "storage"}), carries=nothing()),
    "what Spiderpool's webhook wrote": Row(
        pod("plain", {INJECT: "spiderpool", NETWORKS: "default/rail0,default/rail1,default/rail2,default/rail3"}),
        carries={"networks": "default/rail0,default/rail1,default/rail2,default/rail3"},
        warned="is attached as the next free name",
    ),
    "ours before Spiderpool's": Row(pod("plain", {INJECT: "native"} | SPIDER), carries=rails(0, 1, 2, 3)),
}

OWN = {
    "a network of its own": Row(
        with_networks("storage/nfs@net7"),
        carries=rails(0, 1, 2, 3)
        | {"networks": ",".join(("storage/nfs@net7", *(f"default/rail{rail}@rail{rail}" for rail in range(4))))},
    ),
    "a network of its own as JSON": Row(
        with_networks('[{"name": "nfs", "ips": ["10.9.8.7/24"]}]'),
        carries=rails(0, 1, 2, 3) | {"networks": [None, "rail0", "rail1", "rail2", "rail3"]},
    ),
    "a rail already": Row(
        with_networks("default/rail2@rail2"),
        carries=rails(0, 1, 2, 3)
        | {"networks": "default/rail2@rail2,default/rail0@rail0,default/rail1@rail1,default/rail3@rail3"},
    ),
    "an interface that is taken": Row(
        with_networks("storage/nfs@rail0"),
        carries={"networks": "storage/nfs@rail0,default/rail1@rail1,default/rail2@rail2,default/rail3@rail3"},
        warned=TAKEN,
    ),
    "networks that are none": Row(with_networks("[{"), refused=f"annotation {NETWORKS} is no list of networks"),
    "networks nested deep": Row(with_networks("[" * 9000), refused=f"annotation {NETWORKS} is no list of networks"),
    "networks without end": Row(with_networks("a," * 9000 + "a"), refused="has more than 128 networks or 16384 bytes"),
    "too many networks": Row(with_networks("a," * 200 + "a"), refused="has more than 128 networks"),
    "a value of its own": Row(
        asks("all", containers=main(env=[{"name": "NCCL_SOCKET_IFNAME", "value": "eth1"}])),
        carries=rails(0, 1, 2, 3),
        warned="NCCL_SOCKET_IFNAME is 'eth1', the plan has '=eth0'",
        holds=lambda facts: facts["env"]["main"]["NCCL_SOCKET_IFNAME"] == "eth1",
    ),
    "a value from elsewhere": Row(
        asks(
            "all",
            containers=main(
                env=[{"name": "NCCL_IB_TC", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['tc']"}}}]
            ),
        ),
        carries=rails(0, 1, 2, 3),
        holds=lambda facts: facts["env"]["main"]["NCCL_IB_TC"] is None,
    ),
    "memory of its own at /dev/shm": Row(
        asks("all", containers=main(volumeMounts=[{"name": "mine", "mountPath": "/dev/shm"}]), **OWN_SHM),  # noqa: S108 - in the pod
        carries=rails(0, 1, 2, 3),
        holds=lambda facts: [volume["name"] for volume in facts["made"]["spec"]["volumes"]][:1] == ["mine"],
    ),
    "a volume with our name": Row(
        asks("all", volumes=[{"name": "dshm", "configMap": {"name": "c"}}]),
        carries=rails(0, 1, 2, 3),
        holds=lambda facts: "dshm-rails" in [volume["name"] for volume in facts["made"]["spec"]["volumes"]],
    ),
    "a capability of its own": Row(
        asks("all", containers=main(securityContext={"capabilities": {"add": ["SYS_PTRACE"]}})),
        carries=rails(0, 1, 2, 3),
    ),
    "IPC_LOCK dropped": Row(
        asks("all", containers=main(securityContext={"capabilities": {"drop": ["IPC_LOCK"]}})),
        carries=rails(0, 1, 2, 3) | {"ipc_lock": []},
        warned="IPC_LOCK is dropped",
    ),
    "another user": Row(
        asks("all", securityContext={"runAsUser": 1000}),
        carries=rails(0, 1, 2, 3),
        warned="IPC_LOCK has no effect for user 1000",
    ),
    "privileged": Row(
        asks("all", containers=main(securityContext={"privileged": True})), carries=rails(0, 1, 2, 3) | {"ipc_lock": []}
    ),
    "nodes of its own": Row(asks("all", nodeSelector={"zone": "a"}), carries=rails(0, 1, 2, 3)),
    "nodes of another fabric": Row(
        asks("all", nodeSelector={FABRIC: "other"}),
        carries=rails(0, 1, 2, 3) | {"nodes": "other"},
        warned="node label trackbed.dev/fabric is 'other', the plan has 'spiderpool'",
    ),
    "a rail asked for twice over": Row(
        asks("1", containers=[container("main", GPUS | {"spidernet.io/rail0": "2"})]),
        carries={"resources": {"main": {"rail0": "2"}}},
        warned="spidernet.io/rail0 is 2, the plan has 1",
    ),
}

ODD = {
    "several containers": Row(asks("2", containers=[SIDE, MAIN]), carries=rails(0, 1)),
    "several containers, no GPUs": Row(
        asks("2", containers=[SIDE, container("other")]), carries=rails(0, 1, of="side")
    ),
    "several containers with GPUs": Row(
        asks("2", containers=[MAIN, container("more", GPUS)]),
        carries=rails(0, 1),
        warned="container more asks for GPUs too; rails go to main alone",
    ),
    "GPUs asked for by request": Row(
        asks("2", containers=[SIDE, {"name": "main", "image": "i", "resources": {"limits": GPUS, "requests": GPUS}}]),
        carries=rails(0, 1),
    ),
    "init containers": Row(asks("2", initContainers=[container("first")]), carries=rails(0, 1)),
    "an init container with rails": Row(
        asks("2", initContainers=[container("first", {"spidernet.io/rail0": "1"})]),
        carries={"resources": {"first": {"rail0": "1"}, "main": {"rail0": "1", "rail1": "1"}}},
    ),
    "a sidecar with rails": Row(
        asks("2", initContainers=[container("side", {"spidernet.io/rail0": "1"}, restartPolicy="Always")]),
        carries={"resources": {"side": {"rail0": "1"}, "main": {"rail1": "1"}}},
        warned="container side asks for spidernet.io/rail0, container main uses the GPUs",
    ),
    "a sidecar": Row(asks("2", initContainers=[container("side", restartPolicy="Always")]), carries=rails(0, 1)),
    "no name, but the beginning of one": Row(
        {**asks("2"), "metadata": {"generateName": "job-", "namespace": "plain", "annotations": SPIDER | {RAILS: "2"}}},
        carries=rails(0, 1),
    ),
    "no resources": Row(asks("2", containers=[{"name": "main", "image": "i"}]), carries=rails(0, 1)),
    "resources for the whole pod": Row(
        asks("2", resources={"limits": {"cpu": "4", "memory": "8Gi"}}), carries=rails(0, 1)
    ),
    "scheduling gates": Row(asks("2", schedulingGates=[{"name": "queue"}]), carries=rails(0, 1)),
    "users of its own": Row(asks("2", hostUsers=False), carries=rails(0, 1)),
    "names of the host's processes": Row(asks("2", hostPID=True, hostIPC=True), carries=rails(0, 1)),
    "a node already": Row(asks("2", nodeName="gpu-0"), carries=rails(0, 1)),
    "annotations of every alphabet": Row(
        pod("plain", SPIDER | {"note": '\u00fc\u4e2d\U0001f9ea \\ " \n ~0/~1'}), carries=rails(0, 1, 2, 3)
    ),
    "Windows": Row(
        asks("all", os={"name": "windows"}), carries=nothing(), warned=f"{RAILS}: pods on Windows get no rails"
    ),
    "Windows by its nodes": Row(asks("all", nodeSelector={"kubernetes.io/os": "windows"}), carries=nothing()),
    "Windows by default": Row(pod("by-default", os={"name": "windows"}), carries=nothing()),
    "a static pod's mirror": Row(
        pod(
            "by-default",
            SPIDER | {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file"},
            nodeName="gpu-0",
        ),
        carries=nothing(),
    ),
    "a static pod's mirror with a wrong value": Row(
        pod("plain", {RAILS: "wrong", "kubernetes.io/config.mirror": "x"}, nodeName="gpu-0"), carries=nothing()
    ),
    "huge pages without memory": Row(
        pod("plain", ALL | {FABRIC: "aws-efa"}),
        refused="huge pages are requested without cpu or memory; state how much memory the job needs",
    ),
    "the host's network": Row(
        asks("all", hostNetwork=True), refused=f"annotation {RAILS} asks for rails, and a pod with hostNetwork: true"
    ),
    "more rails than a node has": Row(
        pod("plain", ALL | {FABRIC: "halves"}),
        refused="no node has all of rails 0, 1, 2, 3; a node of halves has 2 at most",
    ),
    "as many rails as some nodes have": Row(
        pod("plain", {RAILS: "2,3", FABRIC: "halves"}), carries=rails(2, 3) | {"nodes": "halves", "fabric": "halves"}
    ),
    "rails of unlike nodes": Row(
        pod("plain", {RAILS: "1,2", FABRIC: "halves"}), refused="no node has all of rails 1, 2"
    ),
}

LEVELS = {
    "a baseline namespace": Row(
        asks("all", "is-baseline"),
        carries=rails(0, 1, 2, 3) | {"ipc_lock": []},
        warned="Pod Security level baseline allows no IPC_LOCK",
    ),
    "a restricted namespace": Row(
        asks("all", "is-restricted", containers=main(securityContext=RESTRICTED)),
        carries=rails(0, 1, 2, 3) | {"ipc_lock": []},
        warned="Pod Security level restricted allows no IPC_LOCK",
    ),
    "a privileged namespace": Row(asks("all", "is-privileged"), carries=rails(0, 1, 2, 3)),
    "a stack that needs privileges, where there are none": Row(
        pod("is-baseline", ALL | {FABRIC: "oci"}),
        refused="stack oci needs privileged: true and the host's /dev/infiniband, and Pod Security level baseline of "
        "namespace is-baseline forbids it",
    ),
    "a stack that needs folders of the host, where there are none": Row(
        pod("is-restricted", ALL | {FABRIC: "gke"}), refused="stack gke needs the host's /home/kubernetes/bin/gib"
    ),
    "claims of another namespace": Row(
        pod("plain", ALL | {FABRIC: "dranet"}),
        refused="the claim templates of Fabric dranet are in namespace default, and a pod can only use its own",
    ),
    "a stack without rails": Row(
        pod("plain", ALL | {FABRIC: "kvm"}), refused="is of stack kvm, which gives pods no rails"
    ),
}

ROWS: dict[str, Row] = {**ASKING, **SPIDERPOOLS, **OWN, **ODD, **LEVELS}
