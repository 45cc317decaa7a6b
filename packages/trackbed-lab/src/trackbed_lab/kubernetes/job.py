"""The job of a run: two pods on two nodes that ask for every rail, and what is done in them.

Pods are those of a user: uid 1000, no capability, no host network. What runs in them is told by shell scripts that take
every name from the container's own environment, as a job's would.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trackbed.cluster.api.response import Object
from trackbed.cluster.jobs.jobs import put_rails
from trackbed.cluster.jobs.requirements import build_requirements
from trackbed.cluster.stacks import stack
from trackbed.cluster.stacks.native.choice import ANNOTATION
from trackbed.cluster.stacks.rails import OWN_PREFIX, resource
from trackbed.fabric.plan.plan import Plan

JOB = "rails"
NAMESPACE = "default"
DONE = "/dev/shm/done"  # noqa: S108 - inside the pod; its own
"""Of each of the job's pods: it ends once a line is written there. Nothing is polled: each look would be a process.

It opens again when interrupted: what `exec` left in the background is the first process's child once it ends.
"""
STACK = "native"

_HOST = "kubernetes.io/hostname"
_ALONE = {"automountServiceAccountToken": False}
"""Pods that ask the API server nothing: a token is a volume to mount, and seconds of an emulated processor."""
_SECONDS = 100
_TRIES = 10
_ITERATIONS = 20
_SIZE_BYTES = 65536
_PORT = 18515
"""perftest's own port; rail r uses PORT + r."""

_LOOK = """
for file in /dev/infiniband/uverbs*; do [ -r "$file" ] && [ -w "$file" ] && echo "file ${file##*/}"; done
ibv_devices | sed -n "3,\\$s/ *\\([^ \\t]*\\).*/device \\1/p"
for path in /sys/class/net/rail*; do echo "rail ${path##*/}"; done
/usr/bin/ip -4 -o address show | sed -n "s,.* \\(rail[0-9]*\\) *inet \\([0-9.]*\\).*,address \\1 \\2,p"
env | sed -n "s/^TRACKBED_RAIL\\([0-9]*\\)_RDMA=/rdma \\1 /p; s/^NCCL_IB_HCA=/hca /p"
echo "user $(id -u) memlock $(ulimit -l)"
"""
"""Lines of a word and what it is: files that can be opened, devices, interfaces, addresses, variables, who runs it."""

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
"""Of a device and an IPv4 address: the index of the GID that is made of it. No process for each of 1024 entries."""


def objects(plan: Plan, image: str) -> list[Object]:
    """The job, as `trackbed job patch` leaves it."""
    job = _job(image)
    put_rails([job], build_requirements(stack(STACK), plan))
    job["spec"]["template"]["spec"].pop("nodeSelector", None)  # the label of the fabric is another stack's doing
    return [job]


def annotated(image: str) -> Object:
    """The job as a user writes it where the webhook does the rest: an annotation, and no word more of networks."""
    job = _job(image)
    job["spec"]["template"]["metadata"] = {"annotations": {ANNOTATION: "all"}}
    return job


def _job(image: str) -> Object:
    """Two pods on two nodes that wait for each other and say nothing of rails."""
    container = {**_container(image), "command": ["sh", "-c", f"mkfifo {DONE}; until read -r end < {DONE}; do :; done"]}
    apart = {"labelSelector": {"matchLabels": {"job-name": JOB}}, "topologyKey": _HOST}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    template = {"spec": {**_ALONE, "restartPolicy": "Never", "affinity": affinity, "containers": [container]}}
    spec = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": JOB, "namespace": NAMESPACE}, "spec": spec}


def pod(plan: Plan, image: str, name: str, rails: Sequence[int], node: str) -> Object:
    """A pod that asks for some rails and waits."""
    asked = {resource(plan.common.rails[rail], OWN_PREFIX): 1 for rail in rails}
    container = {**_container(image), "resources": {"limits": asked}}
    spec = {**_ALONE, "nodeSelector": {_HOST: node}, "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def _container(image: str) -> dict[str, Any]:
    user = {"runAsUser": 1000, "runAsNonRoot": True, "allowPrivilegeEscalation": False}
    security = {**user, "capabilities": {"drop": ["ALL"]}}
    return {"name": "main", "image": image, "imagePullPolicy": "Never", "securityContext": security}


def look() -> str:
    """A script that tells what a pod has."""
    return _LOOK


class Seen:
    """What that script told."""

    def __init__(self, text: str) -> None:
        words = [line.split(maxsplit=1) for line in text.splitlines() if " " in line]
        self._lines = [(first, rest) for first, rest in words]
        self.files = self._all("file")
        """Files of RDMA devices that it can open."""
        self.devices = self._all("device")
        """RDMA devices that libibverbs finds."""
        self.rails = self._all("rail")
        self.addresses = dict(one.split() for one in self._all("address"))
        """Interface -> IPv4 address."""
        self.rdma = {int(rail): name for rail, name in (one.split() for one in self._all("rdma"))}
        """Rail -> RDMA device, as the environment has it."""
        self.hca = next(iter(self._all("hca")), "")
        self.user = next(iter(self._all("user")), "")

    def _all(self, kind: str) -> list[str]:
        return sorted(rest for first, rest in self._lines if first == kind)


def listen_bandwidth(seen: Seen) -> str:
    """A script: the listening ends of a bandwidth test on every rail, in the background; ends when all listen."""
    started = "".join(f"{_bandwidth(seen, rail)} </dev/null >/dev/null 2>&1 &\n" for rail in seen.rdma)
    listening = f'[ "$(cat /proc/net/tcp /proc/net/tcp6 | grep -c " 0A ")" -ge {len(seen.rdma)} ]'
    return f"{_GID}{started}for try in $(seq {_SECONDS}); do {listening} && break; sleep 1; done\n"


def send_bandwidth(seen: Seen, to: Seen) -> str:
    """A script: RDMA writes to the other pod over every rail at once; the lines with figures, each with its rail."""
    sent = (f"({_tried(_bandwidth(seen, rail), to, rail)} | sed 's/^/rail {rail} /') &\n" for rail in seen.rdma)
    return _GID + "".join(sent) + "wait\n"


def _bandwidth(seen: Seen, rail: int) -> str:
    device = f"$TRACKBED_RAIL{rail}_RDMA"
    gid = f"$(gid {device} {_address(seen, rail)})"
    program = f"timeout {_SECONDS} ib_write_bw -d {device} -x {gid} -n {_ITERATIONS} -s {_SIZE_BYTES} -F"
    return f"{program} -p {_PORT + rail}"


def listen_cm(seen: Seen) -> str:
    """A script: the listening ends of rping on every rail, in the background."""
    return "".join(f"timeout {_SECONDS} rping -s -a {_address(seen, rail)} -C 3 &\n" for rail in seen.rdma) + "wait\n"


def connect_cm(seen: Seen, to: Seen) -> str:
    """A script: a connection by the RDMA CM over every rail at once; a line for each that came about."""
    tries = (f"({_tried('rping -c -C 3 -a', to, rail)} && echo connected {rail}) &\n" for rail in seen.rdma)
    return "".join(tries) + "wait\n"


def _tried(command: str, to: Seen, rail: int) -> str:
    """A command, again while nobody listens at the other end yet."""
    return f"for try in $(seq {_TRIES}); do {command} {_address(to, rail)} && break; sleep 1; done"


def _address(seen: Seen, rail: int) -> str:
    return seen.addresses[f"rail{rail}"]


def hca_of(rdma: Mapping[int, str]) -> str:
    """What NCCL_IB_HCA must be: every device by its exact name, with port and rail."""
    return "=" + ",".join(f"{name}:1:{rail}" for rail, name in sorted(rdma.items()))
