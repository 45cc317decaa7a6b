"""The job of a run: two pods on two nodes that request every rail, and the scripts that run in them.

The pods are unprivileged: UID 1000, no capability, no host network. The scripts read every name from the container's
environment, as a user's job would.
"""

from collections.abc import Mapping
from typing import Any

from trackbed.cluster.api.response import Object
from trackbed.cluster.jobs.jobs import inject_into_jobs
from trackbed.cluster.jobs.requirements import PodRequirements, build_requirements
from trackbed.cluster.stacks import load_stack
from trackbed.cluster.stacks.native.choice import ANNOTATION
from trackbed.fabric.plan.plan import Plan

JOB = "rails"
NAMESPACE = "default"
DONE = "/dev/shm/done"  # noqa: S108 - inside the pod; its own
"""A FIFO in each of the job's pods; the container exits when a line is written to it.

Reading it needs no processes, as polling would. The read is repeated when a signal interrupts it: background processes
of `exec` become children of the container's first process.
"""
STACK = "native"

_HOST = "kubernetes.io/hostname"
_NO_TOKEN = {"automountServiceAccountToken": False}
"""No token for the API server: mounting its volume takes an emulated processor seconds."""
_SECONDS = 100
_TRIES = 10
_ITERATIONS = 20
_SIZE_BYTES = 65536
_PORT = 18515
"""perftest's default port; rail r uses PORT + r."""

_INSPECTION = """
for file in /dev/infiniband/uverbs*; do [ -r "$file" ] && [ -w "$file" ] && echo "file ${file##*/}"; done
ibv_devices | sed -n "3,\\$s/ *\\([^ \\t]*\\).*/device \\1/p"
for path in /sys/class/net/rail*; do echo "rail ${path##*/}"; done
/usr/bin/ip -4 -o address show | sed -n "s,.* \\(rail[0-9]*\\|eth0\\) *inet \\([0-9.]*\\).*,address \\1 \\2,p"
env | sed -n "s/^TRACKBED_RAIL\\([0-9]*\\)_RDMA=/rdma \\1 /p; s/^NCCL_IB_HCA=/hca /p"
env | grep -q ^TRACKBED_RAIL || for file in /dev/infiniband/uverbs*; do
    [ -r "$file" ] && [ -w "$file" ] || continue
    read -r device < "/sys/class/infiniband_verbs/${file##*/}/ibdev"
    read -r parent < "/sys/class/infiniband/$device/parent"
    case $parent in rail*) echo "rdma ${parent#rail} $device" ;; esac
done
echo "user $(id -u) memlock $(ulimit -l)"
"""
"""Prints lines of a keyword and its value: accessible files, devices, interfaces, addresses, environment, user.

Only stack `native` names each rail's RDMA device in the environment. With other stacks it is the device of a file that
the pod can open, on the rail's interface.
"""

_GID = """\
gid() {
    wanted=$(printf "ffff:%02x%02x:%02x%02x" $(echo "$2" | sed "s/[.]/ /g"))
    index=0
    while read -r found 2>/dev/null < /sys/class/infiniband/$1/ports/1/gids/$index; do
        case $found in *:$wanted) echo $index; return ;; esac
        index=$((index + 1))
    done
}
"""
"""Prints the GID index for a device and an IPv4 address, without a process for each of 1024 entries."""


def build_job(plan: Plan, image: str, stack: str = STACK) -> list[Object]:
    """Return the job with rails and the objects that it needs, as `trackbed job patch` writes them."""
    objects = [_build_plain_job(image)]
    requirements = build_requirements(load_stack(stack), plan)
    inject_into_jobs(objects, requirements)
    if stack == STACK:  # its run has nothing that labels nodes
        objects[0]["spec"]["template"]["spec"].pop("nodeSelector", None)
    return objects


def build_annotated_job(image: str, rails: str = "all") -> Object:
    """Return the job as a user writes it for the webhook: an annotation, and nothing else about networks."""
    job = _build_plain_job(image)
    job["spec"]["template"]["metadata"] = {"annotations": {ANNOTATION: rails}}
    return job


def _build_plain_job(image: str) -> Object:
    """Return a job of two pods on different nodes, without rails."""
    container = {
        **_build_container(image),
        "command": ["sh", "-c", f"mkfifo {DONE}; until read -r end < {DONE}; do :; done"],
    }
    other_pods = {"labelSelector": {"matchLabels": {"job-name": JOB}}, "topologyKey": _HOST}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [other_pods]}}
    template = {"spec": {**_NO_TOKEN, "restartPolicy": "Never", "affinity": affinity, "containers": [container]}}
    spec = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": JOB, "namespace": NAMESPACE}, "spec": spec}


def build_pod(requirements: PodRequirements, image: str, name: str, node: str) -> Object:
    """Return a pod on `node` that has some rails, as `trackbed job patch --rails` writes it, and waits."""
    spec: Object = {**_NO_TOKEN, "terminationGracePeriodSeconds": 0, "containers": [_build_container(image)]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}
    inject_into_jobs([pod], requirements)
    spec["nodeSelector"] = {_HOST: node}
    return pod


def _build_container(image: str) -> dict[str, Any]:
    user = {"runAsUser": 1000, "runAsNonRoot": True, "allowPrivilegeEscalation": False}
    security = {**user, "capabilities": {"drop": ["ALL"]}}
    return {"name": "main", "image": image, "imagePullPolicy": "Never", "securityContext": security}


def render_inspection_script() -> str:
    """Return a script that prints a pod's devices, interfaces and environment, for PodInspection."""
    return _INSPECTION


class PodInspection:
    """The devices, interfaces and environment of a pod."""

    def __init__(self, text: str) -> None:
        pairs = (line.split(maxsplit=1) for line in text.splitlines() if " " in line)
        self._lines = [(keyword, value) for keyword, value in pairs]
        self.files = self._find_values("file")
        """Files of RDMA devices that the pod can open."""
        self.devices = self._find_values("device")
        """RDMA devices that libibverbs finds."""
        self.rails = self._find_values("rail")
        self.addresses = dict(value.split() for value in self._find_values("address"))
        """Interface, a rail or eth0 -> IPv4 address."""
        self.rdma = {int(rail): name for rail, name in (value.split() for value in self._find_values("rdma"))}
        """Rail -> RDMA device."""
        self.hca = next(iter(self._find_values("hca")), "")
        self.user = next(iter(self._find_values("user")), "")

    def _find_values(self, keyword: str) -> list[str]:
        return sorted(value for first, value in self._lines if first == keyword)

    def get_address(self, rail: int) -> str:
        """Return the IPv4 address of a rail."""
        return self.addresses[f"rail{rail}"]

    def get_primary_address(self) -> str:
        """Return the IPv4 address in the cluster's network, by which processes of a job find each other."""
        return self.addresses["eth0"]


def render_bandwidth_server(pod: PodInspection) -> str:
    """Return a script that starts a server of the bandwidth test for every rail and waits until all listen.

    A server ends with its first client. That one may have failed on a slow machine where its server has not, so each
    server is started again in any case.
    """
    servers = "".join(
        f"(for try in $(seq {_TRIES}); do {_render_bandwidth(pod, rail)}; sleep 1; done) </dev/null >/dev/null 2>&1 &\n"
        for rail in pod.rdma
    )
    listening = f'[ "$(cat /proc/net/tcp /proc/net/tcp6 | grep -c " 0A ")" -ge {len(pod.rdma)} ]'
    return f"{_GID}{servers}for try in $(seq {_SECONDS}); do {listening} && break; sleep 1; done\n"


def render_bandwidth_client(pod: PodInspection, peer: PodInspection) -> str:
    """Return a script that writes to the peer over every rail at once and prints the figures, prefixed by the rail."""
    clients = (
        f"({_render_retry(f'{_render_bandwidth(pod, rail)} {peer.get_primary_address()}')} 2>&1"
        f" | sed 's/^/rail {rail} /') &\n"
        for rail in pod.rdma
    )
    return _GID + "".join(clients) + "wait\n"


def _render_bandwidth(pod: PodInspection, rail: int) -> str:
    device = pod.rdma[rail]
    gid = f"$(gid {device} {pod.get_address(rail)})"
    program = f"timeout {_SECONDS} ib_write_bw -d {device} -x {gid} -n {_ITERATIONS} -s {_SIZE_BYTES} -F"
    return f"{program} -p {_PORT + rail}"


def render_cm_server(pod: PodInspection) -> str:
    """Return a script that runs a server of rping for every rail and waits until all have ended."""
    servers = (f"timeout {_SECONDS} rping -s -a {pod.get_address(rail)} -C 3 &\n" for rail in pod.rdma)
    return "".join(servers) + "wait\n"


def render_cm_client(pod: PodInspection, peer: PodInspection) -> str:
    """Return a script that connects to the peer by the RDMA CM over every rail, and prints a line for each success.

    The source is named: where rails have routing tables of their own, only a rule of the source leads to them.
    """
    clients = (
        f"({_render_retry(f'rping -c -C 3 -I {pod.get_address(rail)} -a {peer.get_address(rail)}')}"
        f" && echo connected {rail}) &\n"
        for rail in pod.rdma
    )
    return "".join(clients) + "wait\n"


def _render_retry(command: str) -> str:
    """Return a loop that runs a command until it succeeds."""
    return f"for try in $(seq {_TRIES}); do {command} && break; sleep 1; done"


def format_hca(rdma: Mapping[int, str]) -> str:
    """Return the value of NCCL_IB_HCA: every device by its exact name, with port and rail."""
    return "=" + ",".join(f"{name}:1:{rail}" for rail, name in sorted(rdma.items()))
