"""One run over a real cluster: from two servers in factory state to pods with 8 RDMA rails, and back.

factory, reboot, doctor           as in vm/run.py; servers join the cluster as they boot
apply      the same, as `trackbed apply --nodes` does it: nothing of Trackbed needs to be on a server
nodes      kubelets are Ready
stack      `trackbed render stack native`; every agent serves, every rail is offered
job        two pods that ask for every rail are scheduled and run; on one node two more, with half of the rails each
devices    each sees exactly its rails and can open exactly its RDMA devices; the three of one node none of another's
full       one pod more waits, and the scheduler says why
rdma       writes between the job's pods on every rail, by an unprivileged user
cm         the same rails by the RDMA CM
back       the job ends; every VF is on its node again as it was, no address is held
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from trackbed.cluster.api.errors import KubeError
from trackbed.cluster.api.response import Object
from trackbed.cluster.stacks import stack
from trackbed.cluster.stacks.native.daemon import NAME, NAMESPACE
from trackbed.cluster.stacks.rails import OWN_PREFIX, resource
from trackbed.cluster.stacks.stack import objects
from trackbed.fabric.plan.plan import Plan
from trackbed_lab.kubernetes import cluster, job, node
from trackbed_lab.kubernetes.blocking import BlockingClient
from trackbed_lab.kubernetes.pods import PodError, find
from trackbed_lab.vm import remote
from trackbed_lab.vm import run as vm
from trackbed_lab.vm.channel import CommandResult, execute
from trackbed_lab.vm.lab import VmLabError

_SECONDS = 120.0
_POLL_SECONDS = 0.5
_FIGURES = re.compile(r"^rail (\d+)\s+65536\s+\d+\s+[\d.]+\s+([\d.]+)", re.MULTILINE)
_STATUS = (sys.executable, "-m", "trackbed", "agent", "status", "-o", "json")
VFS = """
for path in /sys/class/net/*/device/virtfn*/net/*; do
    echo "${path%/net/*} ${path##*/} $(cat "$path/address" "$path/mtu" "$path/flags" | tr "\\n" " ")"
done | sed "s,/sys/class/net/,,; s,/device/, ," | sort
ls /var/run/cdi 2>/dev/null
true
"""
"""A line for each VF on the node: its port and number, name, MAC, MTU, flags; and what is left in /var/run/cdi."""


@dataclass(slots=True)
class Cluster:
    """A run on a cluster: the course of its servers, and its API."""

    course: vm.VmRun
    client: BlockingClient
    plan: Plan
    image: str
    """Of workloads."""
    before: list[str]
    """VFs on each node before any pod."""
    seen: dict[str, job.Seen] = field(default_factory=dict)
    """What pods have, once they were looked at."""

    @property
    def names(self) -> list[str]:
        """The nodes."""
        return [node.name for node in self.plan.nodes]

    def inside(self, pod: str, script: str) -> str:
        """What a script in a pod says. Raises PodError if the pod does not run."""
        found = find(self.client, job.NAMESPACE, pod)
        done = self._on(found.node, found.run(["sh", "-c", script]))
        return (done.output + done.errors).decode(errors="replace")

    def node_of(self, pod: str) -> str:
        """The node that a pod runs on. Raises PodError."""
        return find(self.client, job.NAMESPACE, pod).node

    def look(self, pod: str) -> job.Seen:
        """What a pod has."""
        if pod not in self.seen:
            self.seen[pod] = job.Seen(self.inside(pod, job.look()))
        return self.seen[pod]

    def on_each(self, script: str) -> list[str]:
        """What a script says on every node."""
        return [done.output.decode(errors="replace") for done in self.course.run_everywhere(["sh", "-c", script])]

    def _on(self, node: str, argv: list[str]) -> CommandResult:
        return execute(self.course.lab.find_server(node).channel, argv, _SECONDS * 2)

    def until(self, what: str, holds: Callable[[], bool], seconds: float = _SECONDS) -> None:
        """Wait until the API says so. Raises LabError after a time that is long enough."""
        deadline = time.monotonic() + seconds
        while not self._holds(holds):
            if time.monotonic() > deadline:
                raise VmLabError(f"{what}: not within {seconds:.0f} s{self._told()}")
            time.sleep(_POLL_SECONDS)

    def _holds(self, holds: Callable[[], bool]) -> bool:
        try:
            return holds()
        except KubeError:
            return False

    def _told(self) -> str:
        """The last warnings of the cluster."""
        try:
            events = [one for one in self.client.list("v1", "Event") if one.get("type") == "Warning"]
        except KubeError as error:
            return f"; {error}"
        told = [f"{one['involvedObject'].get('name')}: {one.get('message')}" for one in events[-6:]]
        return "".join(f"\n    {line}" for line in told)

    def pods(self) -> list[Object]:
        """Pods of the job's namespace."""
        return list(self.client.list("v1", "Pod", job.NAMESPACE))

    def of_job(self) -> list[str]:
        """The job's pods, in the order of their nodes."""
        own = [one for one in self.pods() if one["metadata"].get("labels", {}).get("job-name") == job.JOB]
        return [one["metadata"]["name"] for one in sorted(own, key=lambda one: one["spec"].get("nodeName", ""))]

    def runs(self, name: str) -> bool:
        """Whether a pod's containers are up."""
        return any(
            one["metadata"]["name"] == name and one.get("status", {}).get("phase") == "Running" for one in self.pods()
        )


def run(course: vm.VmRun, client: BlockingClient, image: str) -> None:
    """Go through all phases on a cluster whose servers have just come up."""
    here = Cluster(course, client, course.plan, image, [])
    course.run_phase("factory", lambda: vm.check_factory_state(course))
    course.run_phase("apply", lambda: vm.check_apply(course, remote.apply_over_channel))
    for name, work in _PHASES.items():
        course.run_phase(name, partial(checked, work, here))


def checked(work: Callable[[Cluster], tuple[str, bool]], here: Cluster) -> tuple[str, bool]:
    """A phase done, what the cluster refuses told as the lab's own errors."""
    try:
        return work(here)
    except (KubeError, PodError) as error:
        raise VmLabError(str(error)) from error


def _reboot(here: Cluster) -> tuple[str, bool]:
    here.on_each(node.JOIN)
    return vm.reboot_servers(here.course)


def _nodes(here: Cluster) -> tuple[str, bool]:
    here.until("all nodes Ready", lambda: all(cluster.is_ready(here.client, name) for name in here.names))
    return ", ".join(f"{name} Ready" for name in here.names), True


def _doctor(here: Cluster) -> tuple[str, bool]:
    here.before = here.on_each(VFS)
    return vm.check_doctor(here.course)


def _stack(here: Cluster) -> tuple[str, bool]:
    listed = list(objects(stack(job.STACK), here.plan))
    for one in listed:
        here.client.apply(one)
    here.until("an agent on each node", lambda: _ready_agents(here) == len(here.names))
    here.until("every rail offered by every node", lambda: all(map(bool, offers(here))))
    least = min(offers(here))
    return f"{len(listed)} objects; {len(here.names)} agents; each rail can be had {least} times on each node", True


def _ready_agents(here: Cluster) -> int:
    status: dict[str, Any] = here.client.get("apps/v1", "DaemonSet", NAME, NAMESPACE).get("status", {})
    return int(status.get("numberReady", 0))


def offers(here: Cluster) -> Iterator[int]:
    """How often each rail can be had, for all nodes and rails."""
    for name in here.names:
        have = here.client.get("v1", "Node", name).get("status", {}).get("allocatable", {})
        yield from (int(have.get(resource(rail, OWN_PREFIX), 0)) for rail in here.plan.common.rails)


def _job(here: Cluster) -> tuple[str, bool]:
    for one in job.objects(here.plan, here.image):
        here.client.create(one)
    for name, rails in _halves(here).items():
        here.client.create(job.pod(here.plan, here.image, name, rails, here.names[0]))
    here.until("two pods of the job run", lambda: len(running(here)) == len(here.names))
    here.until("two pods more run", lambda: all(map(here.runs, _halves(here))))
    places = [here.node_of(name) for name in here.of_job()]
    words = f"{len(places)} pods run, on {', '.join(places)}; {len(_halves(here))} more on {here.names[0]}"
    return words, sorted(places) == sorted(here.names)


def _halves(here: Cluster) -> dict[str, list[int]]:
    """Pods beside the job's with half of the rails each: every rail of their node is then in use twice."""
    rails = [rail.rail for rail in here.plan.common.rails]
    half = len(rails) // 2
    return {"low": rails[:half], "high": rails[half:]}


def running(here: Cluster) -> list[str]:
    """Pods of the job that run."""
    return [name for name in here.of_job() if here.runs(name)]


def _devices(here: Cluster) -> tuple[str, bool]:
    rails = [rail.rail for rail in here.plan.common.rails]
    wanted = dict.fromkeys(here.of_job(), rails) | _halves(here)
    return have(here, wanted)


def have(here: Cluster, wanted: Mapping[str, list[int]]) -> tuple[str, bool]:
    """Whether each of these pods has its rails, and nothing of another's."""
    with ThreadPoolExecutor(len(wanted)) as pool:
        seen = dict(zip(wanted, pool.map(here.look, wanted), strict=True))
    wrong = [f"{name}: {why}" for name, own in wanted.items() for why in _unlike(seen[name], own)]
    places = {name: here.node_of(name) for name in seen}
    for place in here.names:
        files = [one for name, each in seen.items() if places[name] == place for one in each.files]
        if len(set(files)) != len(files):
            wrong.append(f"two pods on {place} can open the same RDMA device")
    counts = ", ".join(f"{len(seen[name].rails)} rails and {len(seen[name].files)} RDMA devices" for name in wanted)
    return "; ".join(wrong) or f"{counts}; none of another's", not wrong


def _unlike(seen: job.Seen, rails: list[int]) -> Iterator[str]:
    """What a pod with these rails should not have, or lacks."""
    if seen.rails != sorted(f"rail{rail}" for rail in rails):
        yield f"has {seen.rails}"
    if sorted(seen.rdma) != rails or sorted(seen.rdma.values()) != seen.devices:
        yield f"is told of {seen.rdma} and finds {seen.devices}"
    if len(seen.files) != len(rails):
        yield f"can open {seen.files}"
    if seen.hca != job.hca_of(seen.rdma):
        yield f"NCCL_IB_HCA is {seen.hca}"
    if seen.user != "1000 memlock unlimited":
        yield f"runs as {seen.user}"


def _full(here: Cluster) -> tuple[str, bool]:
    rails = [rail.rail for rail in here.plan.common.rails]
    here.client.create(job.pod(here.plan, here.image, "more", rails, here.names[0]))
    here.until("the scheduler judges one pod more", lambda: bool(_refusal(here, "more")))
    said, extra = _refusal(here, "more"), (*_halves(here), "more")
    ok = all(f"Insufficient {resource(rail, OWN_PREFIX)}" in said for rail in here.plan.common.rails)
    for name in extra:
        here.client.delete({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": job.NAMESPACE}})
    here.until("only the job is left", lambda: len(here.pods()) == len(here.of_job()))
    return f"Pending: {said.partition('. ')[0]}", ok


def _refusal(here: Cluster, name: str) -> str:
    """Why the scheduler has no place for a pod."""
    for one in here.pods():
        if one["metadata"]["name"] == name:
            for condition in one.get("status", {}).get("conditions", []):
                if condition.get("reason") == "Unschedulable":
                    return str(condition.get("message", ""))
    return ""


def rdma(here: Cluster) -> tuple[str, bool]:
    """RDMA writes between the job's pods, on every rail that they have."""
    first, second = here.of_job()
    near, far = here.look(first), here.look(second)
    here.inside(second, job.listen_bandwidth(far))
    said = here.inside(first, job.send_bandwidth(near, far))
    found = {int(rail): float(figure) for rail, figure in _FIGURES.findall(said)}
    words = f"{len(found)} of {len(near.rdma)} rails as uid 1000"
    if found:
        words += f"; {min(found.values()):.1f} to {max(found.values()):.1f} MB/s each"
    return words, len(found) == len(here.plan.common.rails)


def _cm(here: Cluster) -> tuple[str, bool]:
    first, second = here.of_job()
    near, far = here.look(first), here.look(second)
    with ThreadPoolExecutor(1) as pool:
        listening = pool.submit(here.inside, second, job.listen_cm(far))
        said = here.inside(first, job.connect_cm(near, far))
        listening.result()
    count = said.count("connected ")
    return f"rping over {count} of {len(near.rdma)} rails", count == len(here.plan.common.rails)


def _back(here: Cluster) -> tuple[str, bool]:
    with ThreadPoolExecutor(len(here.names)) as pool:
        list(pool.map(lambda name: here.inside(name, f"echo end > {job.DONE}"), here.of_job()))
    here.until("the job is complete", lambda: _succeeded(here) == len(here.names))
    here.client.delete(job.objects(here.plan, here.image)[0])
    here.until("the pods are gone", lambda: not here.pods())
    here.until("every VF is back", lambda: here.on_each(VFS) == here.before)
    held = [one for done in here.course.run_everywhere(_STATUS) for one in _held(done.output)]
    count = sum(text.count("virtfn") for text in here.before)
    return f"the job is complete; all {count} VFs as before, {len(held)} addresses held", not held


def _succeeded(here: Cluster) -> int:
    status: dict[str, Any] = here.client.get("batch/v1", "Job", job.JOB, job.NAMESPACE).get("status", {})
    return int(status.get("succeeded", 0))


def _held(status: bytes) -> list[Any]:
    """What an agent holds. Raises LabError if none answers."""
    try:
        return list(msgspec.json.decode(status, type=dict[str, Any])["attachments"])
    except (msgspec.DecodeError, KeyError) as error:
        raise VmLabError("an agent does not say what it holds") from error


_PHASES: dict[str, Callable[[Cluster], tuple[str, bool]]] = {
    "reboot": _reboot,
    "nodes": _nodes,
    "doctor": _doctor,
    "stack": _stack,
    "job": _job,
    "devices": _devices,
    "full": _full,
    "rdma": rdma,
    "cm": _cm,
    "back": _back,
}
