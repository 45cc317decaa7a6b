"""A run over a cluster: from two servers in factory state to pods with RDMA rails, and back.

factory, reboot, doctor           as in vm/run.py; servers join the cluster when they boot
apply      by `trackbed apply --nodes`, which needs nothing of Trackbed on a server
nodes      kubelets are Ready
stack      `trackbed render stack native`; every agent serves, every rail is allocatable
job        two pods that request every rail run; two more run on one node, with half of the rails each
devices    each pod sees exactly its rails and can open exactly its RDMA devices
full       one pod more is Pending, and the scheduler's message names the rails
rdma       writes between the job's pods on every rail, by an unprivileged user
cm         connections on every rail by the RDMA CM
back       the job ends; every VF is back on its node as before, no address is held
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
from trackbed_lab.kubernetes.pods import PodError, find_container
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
"""Prints a line for each VF on the node (port and number, name, MAC, MTU, flags), then the files in /var/run/cdi."""


@dataclass(slots=True)
class ClusterRun:
    """A run in progress on a cluster: the run of its servers, and its API."""

    vm_run: vm.VmRun
    client: BlockingClient
    plan: Plan
    image: str
    """Image of workloads."""
    vfs_before: list[str]
    """Listing of the VFs on each node before any pod."""
    views: dict[str, job.PodInspection] = field(default_factory=dict)
    """Views of the pods that were inspected."""

    @property
    def names(self) -> list[str]:
        """The names of the nodes."""
        return [node.name for node in self.plan.nodes]

    @property
    def rails(self) -> list[int]:
        """The rails of the plan."""
        return [rail.rail for rail in self.plan.common.rails]

    def run_in_pod(self, pod: str, script: str) -> str:
        """Run a script in a pod and return its output. Raises PodError if the pod is not running."""
        container = find_container(self.client, job.NAMESPACE, pod)
        result = self._run_on(container.node, container.build_exec_command(["sh", "-c", script]))
        return (result.output + result.errors).decode(errors="replace")

    def find_node(self, pod: str) -> str:
        """Return the node of a pod. Raises PodError."""
        return find_container(self.client, job.NAMESPACE, pod).node

    def inspect_pod(self, pod: str) -> job.PodInspection:
        """Return the view of a pod; it is read once."""
        if pod not in self.views:
            self.views[pod] = job.PodInspection(self.run_in_pod(pod, job.render_inspection_script()))
        return self.views[pod]

    def run_on_each(self, script: str) -> list[str]:
        """Run a script on every node; return the outputs."""
        results = self.vm_run.run_everywhere(["sh", "-c", script])
        return [result.output.decode(errors="replace") for result in results]

    def _run_on(self, node: str, argv: list[str]) -> CommandResult:
        return execute(self.vm_run.lab.find_server(node).channel, argv, _SECONDS * 2)

    def wait_for(self, description: str, condition: Callable[[], bool], seconds: float = _SECONDS) -> None:
        """Wait until a condition holds; errors of the API count as False. Raises VmLabError at the deadline."""
        deadline = time.monotonic() + seconds
        while not self._holds(condition):
            if time.monotonic() > deadline:
                raise VmLabError(f"{description}: not within {seconds:.0f} s{self._list_warnings()}")
            time.sleep(_POLL_SECONDS)

    def _holds(self, condition: Callable[[], bool]) -> bool:
        try:
            return condition()
        except KubeError:
            return False

    def _list_warnings(self) -> str:
        """Return the last warning events of the cluster as text."""
        try:
            events = [event for event in self.client.list("v1", "Event") if event.get("type") == "Warning"]
        except KubeError as error:
            return f"; {error}"
        lines = [f"{event['involvedObject'].get('name')}: {event.get('message')}" for event in events[-6:]]
        return "".join(f"\n    {line}" for line in lines)

    def list_pods(self) -> list[Object]:
        """Return the pods of the job's namespace."""
        return list(self.client.list("v1", "Pod", job.NAMESPACE))

    def list_job_pods(self) -> list[str]:
        """Return the names of the job's pods, sorted by node."""
        pods = [pod for pod in self.list_pods() if pod["metadata"].get("labels", {}).get("job-name") == job.JOB]
        return [pod["metadata"]["name"] for pod in sorted(pods, key=lambda pod: pod["spec"].get("nodeName", ""))]

    def is_running(self, name: str) -> bool:
        """Return whether a pod is in phase Running."""
        return any(
            pod["metadata"]["name"] == name and pod.get("status", {}).get("phase") == "Running"
            for pod in self.list_pods()
        )


def run_phases(vm_run: vm.VmRun, client: BlockingClient, image: str) -> None:
    """Run all phases on a cluster whose servers have just come up."""
    run = ClusterRun(vm_run, client, vm_run.plan, image, [])
    vm_run.run_phase("factory", lambda: vm.check_factory_state(vm_run))
    vm_run.run_phase("apply", lambda: vm.check_apply(vm_run, remote.apply_over_channel))
    for name, work in _PHASES.items():
        vm_run.run_phase(name, partial(as_lab_errors, work, run))


def as_lab_errors(work: Callable[[ClusterRun], tuple[str, bool]], run: ClusterRun) -> tuple[str, bool]:
    """Run a phase; translate errors of the API and of pods into VmLabError."""
    try:
        return work(run)
    except (KubeError, PodError) as error:
        raise VmLabError(str(error)) from error


def _reboot(run: ClusterRun) -> tuple[str, bool]:
    run.run_on_each(node.JOIN)
    return vm.reboot_servers(run.vm_run)


def _wait_for_nodes(run: ClusterRun) -> tuple[str, bool]:
    run.wait_for("all nodes Ready", lambda: all(cluster.is_ready(run.client, name) for name in run.names))
    return ", ".join(f"{name} Ready" for name in run.names), True


def _run_doctor(run: ClusterRun) -> tuple[str, bool]:
    run.vfs_before = run.run_on_each(VFS)
    return vm.check_doctor(run.vm_run)


def _apply_stack(run: ClusterRun) -> tuple[str, bool]:
    stack_objects = list(objects(stack(job.STACK), run.plan))
    for body in stack_objects:
        run.client.apply(body)
    run.wait_for("an agent on each node", lambda: _count_ready_agents(run) == len(run.names))
    run.wait_for("every rail offered by every node", lambda: all(map(bool, iter_offers(run))))
    least = min(iter_offers(run))
    summary = f"{len(stack_objects)} objects; {len(run.names)} agents; each rail can be had {least} times on each node"
    return summary, True


def _count_ready_agents(run: ClusterRun) -> int:
    status: dict[str, Any] = run.client.get("apps/v1", "DaemonSet", NAME, NAMESPACE).get("status", {})
    return int(status.get("numberReady", 0))


def iter_offers(run: ClusterRun) -> Iterator[int]:
    """Yield the allocatable count of each rail on each node."""
    for name in run.names:
        allocatable = run.client.get("v1", "Node", name).get("status", {}).get("allocatable", {})
        yield from (int(allocatable.get(resource(rail, OWN_PREFIX), 0)) for rail in run.plan.common.rails)


def _run_job(run: ClusterRun) -> tuple[str, bool]:
    for body in job.build_job(run.plan, run.image):
        run.client.create(body)
    halves = _split_rails(run)
    for name, rails in halves.items():
        run.client.create(job.build_pod(run.plan, run.image, name, rails, run.names[0]))
    run.wait_for("two pods of the job run", lambda: len(list_running(run)) == len(run.names))
    run.wait_for("two pods more run", lambda: all(map(run.is_running, halves)))
    nodes = [run.find_node(name) for name in run.list_job_pods()]
    summary = f"{len(nodes)} pods run, on {', '.join(nodes)}; {len(halves)} more on {run.names[0]}"
    return summary, sorted(nodes) == sorted(run.names)


def _split_rails(run: ClusterRun) -> dict[str, list[int]]:
    """Return two pods with half of the rails each; with the job's pod they use every rail of their node twice."""
    half = len(run.rails) // 2
    return {"low": run.rails[:half], "high": run.rails[half:]}


def list_running(run: ClusterRun) -> list[str]:
    """Return the job's pods that are running."""
    return [name for name in run.list_job_pods() if run.is_running(name)]


def _check_devices(run: ClusterRun) -> tuple[str, bool]:
    return check_pods(run, dict.fromkeys(run.list_job_pods(), run.rails) | _split_rails(run))


def check_pods(run: ClusterRun, rails_by_pod: Mapping[str, list[int]]) -> tuple[str, bool]:
    """Check that each pod has exactly its rails and devices, and none of another pod's."""
    with ThreadPoolExecutor(len(rails_by_pod)) as pool:
        views = dict(zip(rails_by_pod, pool.map(run.inspect_pod, rails_by_pod), strict=True))
    problems = [
        f"{name}: {problem}" for name, rails in rails_by_pod.items() for problem in _find_problems(views[name], rails)
    ]
    nodes = {name: run.find_node(name) for name in views}
    for node_name in run.names:
        files = [file for name, view in views.items() if nodes[name] == node_name for file in view.files]
        if len(set(files)) != len(files):
            problems.append(f"two pods on {node_name} can open the same RDMA device")
    counts = ", ".join(f"{len(view.rails)} rails and {len(view.files)} RDMA devices" for view in views.values())
    return "; ".join(problems) or f"{counts}; none of another's", not problems


def _find_problems(view: job.PodInspection, rails: list[int]) -> Iterator[str]:
    """Yield what a pod with these rails has too much or lacks."""
    if view.rails != sorted(f"rail{rail}" for rail in rails):
        yield f"has {view.rails}"
    if sorted(view.rdma) != rails or sorted(view.rdma.values()) != view.devices:
        yield f"is told of {view.rdma} and finds {view.devices}"
    if len(view.files) != len(rails):
        yield f"can open {view.files}"
    if view.hca != job.format_hca(view.rdma):
        yield f"NCCL_IB_HCA is {view.hca}"
    if view.user != "1000 memlock unlimited":
        yield f"runs as {view.user}"


def _check_full(run: ClusterRun) -> tuple[str, bool]:
    """Create one pod more, check that it is Pending for want of rails, and delete all pods but the job's."""
    run.client.create(job.build_pod(run.plan, run.image, "more", run.rails, run.names[0]))
    run.wait_for("the scheduler judges one pod more", lambda: bool(_find_scheduler_message(run, "more")))
    message, extra_pods = _find_scheduler_message(run, "more"), (*_split_rails(run), "more")
    ok = all(f"Insufficient {resource(rail, OWN_PREFIX)}" in message for rail in run.plan.common.rails)
    for name in extra_pods:
        run.client.delete({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": job.NAMESPACE}})
    run.wait_for("only the job is left", lambda: len(run.list_pods()) == len(run.list_job_pods()))
    return f"Pending: {message.partition('. ')[0]}", ok


def _find_scheduler_message(run: ClusterRun, name: str) -> str:
    """Return why the scheduler has not placed a pod, or ""."""
    for pod in run.list_pods():
        if pod["metadata"]["name"] == name:
            for condition in pod.get("status", {}).get("conditions", []):
                if condition.get("reason") == "Unschedulable":
                    return str(condition.get("message", ""))
    return ""


def check_rdma(run: ClusterRun) -> tuple[str, bool]:
    """Write between the job's pods over RDMA, on every rail that they have."""
    client, server = run.list_job_pods()
    client_view, server_view = run.inspect_pod(client), run.inspect_pod(server)
    run.run_in_pod(server, job.render_bandwidth_server(server_view))
    output = run.run_in_pod(client, job.render_bandwidth_client(client_view, server_view))
    rates = {int(rail): float(rate) for rail, rate in _FIGURES.findall(output)}
    summary = f"{len(rates)} of {len(client_view.rdma)} rails as uid 1000"
    if rates:
        summary += f"; {min(rates.values()):.1f} to {max(rates.values()):.1f} MB/s each"
    return summary, len(rates) == len(run.rails)


def _check_cm(run: ClusterRun) -> tuple[str, bool]:
    client, server = run.list_job_pods()
    client_view, server_view = run.inspect_pod(client), run.inspect_pod(server)
    with ThreadPoolExecutor(1) as pool:
        listening = pool.submit(run.run_in_pod, server, job.render_cm_server(server_view))
        output = run.run_in_pod(client, job.render_cm_client(client_view, server_view))
        listening.result()
    count = output.count("connected ")
    return f"rping over {count} of {len(client_view.rdma)} rails", count == len(run.rails)


def _end_job(run: ClusterRun) -> tuple[str, bool]:
    """End the job; check that VFs and addresses are back."""
    with ThreadPoolExecutor(len(run.names)) as pool:
        list(pool.map(lambda name: run.run_in_pod(name, f"echo end > {job.DONE}"), run.list_job_pods()))
    run.wait_for("the job is complete", lambda: _count_succeeded(run) == len(run.names))
    run.client.delete(job.build_job(run.plan, run.image)[0])
    run.wait_for("the pods are gone", lambda: not run.list_pods())
    run.wait_for("every VF is back", lambda: run.run_on_each(VFS) == run.vfs_before)
    statuses = run.vm_run.run_everywhere(_STATUS)
    attachments = [attachment for status in statuses for attachment in _parse_attachments(status.output)]
    count = sum(listing.count("virtfn") for listing in run.vfs_before)
    return f"the job is complete; all {count} VFs as before, {len(attachments)} addresses held", not attachments


def _count_succeeded(run: ClusterRun) -> int:
    status: dict[str, Any] = run.client.get("batch/v1", "Job", job.JOB, job.NAMESPACE).get("status", {})
    return int(status.get("succeeded", 0))


def _parse_attachments(status: bytes) -> list[Any]:
    """Return the attachments in an agent's status. Raises VmLabError if it has none."""
    try:
        return list(msgspec.json.decode(status, type=dict[str, Any])["attachments"])
    except (msgspec.DecodeError, KeyError) as error:
        raise VmLabError("an agent does not report its attachments") from error


_PHASES: dict[str, Callable[[ClusterRun], tuple[str, bool]]] = {
    "reboot": _reboot,
    "nodes": _wait_for_nodes,
    "doctor": _run_doctor,
    "stack": _apply_stack,
    "job": _run_job,
    "devices": _check_devices,
    "full": _check_full,
    "rdma": check_rdma,
    "cm": _check_cm,
    "back": _end_job,
}
