"""A run over a cluster: from two servers in factory state to pods with RDMA rails, and back.

factory, reboot, doctor           as in vm/run.py; servers join the cluster when they boot
apply      by `trackbed apply --nodes`, which needs nothing of Trackbed on a server
nodes      kubelets are Ready
stack      `trackbed render stack native`; every agent serves, every rail is allocatable
job        two pods that request every rail run; two more run on one node, with half of the rails each
devices    each pod sees exactly its rails and can open exactly its RDMA devices
full       one more pod is Pending, and the scheduler's message names the rails
rdma       writes between the job's pods on every rail, by an unprivileged user
cm         connections on every rail by the RDMA CM
back       the job ends; every VF is back on its node as before, no address is held
"""

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from difflib import unified_diff
from functools import partial
from typing import Any

import msgspec

from trackbed.cluster.api.errors import KubeError
from trackbed.cluster.api.response import Object
from trackbed.cluster.jobs.requirements import build_requirements
from trackbed.cluster.stacks import load_stack
from trackbed.cluster.stacks.native.daemon import NAME, NAMESPACE
from trackbed.cluster.stacks.stack import iter_objects
from trackbed.cluster.stacks.traits import Share
from trackbed.fabric.plan.plan import Plan
from trackbed_lab.kubernetes import cluster, job, node
from trackbed_lab.kubernetes.blocking import BlockingClient
from trackbed_lab.kubernetes.cost import measure_cost, measure_memory
from trackbed_lab.kubernetes.pods import PodError, find_container
from trackbed_lab.run_result import PhaseOutcome
from trackbed_lab.vm import remote
from trackbed_lab.vm import run as vm
from trackbed_lab.vm.channel import CommandResult, execute_command
from trackbed_lab.vm.lab import VmLabError

_SECONDS = 300.0
"""Limit for a phase of the cluster; on two idle cores without KVM the longest one takes 40 seconds."""
_POLL_SECONDS = 0.5
_FIGURES = re.compile(r"^rail (\d+)\s+65536\s+\d+\s+[\d.]+\s+([\d.]+)", re.MULTILINE)
_EVENTS = 6
"""Warnings that are shown when a wait is in vain, the newest last."""
_OUTPUT_LINES = 12
"""Lines of a failed test's output that are shown."""
_RAIL_ATTRIBUTE = "trackbed.dev/rail"
"""Attribute of a DRA device, which the objects of a stack give it."""
_NAME_ATTRIBUTE, _RDMA_ATTRIBUTE = "dra.net/ifName", "dra.net/rdma"
"""Attributes that DRANET gives a port."""
_STATUS = (sys.executable, "-m", "trackbed", "agent", "status", "-o", "json")
VF_LINES = """
for path in /sys/class/net/*/device/virtfn*/net/*; do
    echo "${path%/net/*} ${path##*/} $(cat "$path/address" "$path/mtu" "$path/flags" | tr "\\n" " ")"
done | sed "s,/sys/class/net/,,; s,/device/, ," | sort
"""
"""Prints a line for each VF on the node: port and number, name, MAC, MTU, flags."""
CDI = "ls /var/run/cdi 2>/dev/null; true\n"
"""Prints the files by which drivers tell the runtime of devices."""
VFS = VF_LINES + CDI


@dataclass(slots=True)
class ClusterRun:
    """A run in progress on a cluster: the run of its servers, and its API."""

    vm_run: vm.VmRun
    client: BlockingClient
    plan: Plan
    image: str
    """Image of workloads."""
    vfs_before: list[str]
    """Listing of what pods take of each node, before any pod."""
    stack: str = job.STACK
    """Name of the stack that gives pods their rails."""
    listing: str = VFS
    """Script that lists it."""
    views: dict[str, job.PodInspection] = field(default_factory=dict)
    """Inspected pods by name."""

    @property
    def node_names(self) -> list[str]:
        """The names of the nodes."""
        return [node.name for node in self.plan.nodes]

    @property
    def rails(self) -> list[int]:
        """The rails of the plan."""
        return [rail.rail for rail in self.plan.common.rails]

    @property
    def job_rails(self) -> list[int]:
        """The rails of the job's pods: all, but in mode move of native all but the last, which stays on the host."""
        stays = self.stack == job.STACK and self.plan.common.pod_mode == "move"
        return self.rails[:-1] if stays else self.rails

    @property
    def resource_names(self) -> list[str]:
        """The names of the rails' resources; none where pods get rails by claim."""
        return [name for name, _ in load_stack(self.stack).access(self.plan).resources]

    def create_pod(self, name: str, rails: list[int]) -> None:
        """Create a pod with some rails on the first node. Raises KubeError."""
        requirements = build_requirements(load_stack(self.stack), self.plan, rails)
        self.client.create(job.build_pod(requirements, self.image, name, self.node_names[0]))

    def run_in_pod(self, pod: str, script: str) -> str:
        """Run a script in a pod and return its output. Raises PodError if the pod is not running."""
        container = find_container(self.client, job.NAMESPACE, pod)
        result = self._run_on_node(container.node, container.build_exec_command(["sh", "-c", script]))
        return (result.output + result.errors).decode(errors="replace")

    def find_node(self, pod: str) -> str:
        """Return the node of a pod. Raises PodError."""
        return find_container(self.client, job.NAMESPACE, pod).node

    def inspect_pod(self, pod: str) -> job.PodInspection:
        """Return the devices, interfaces and environment of a pod; they are read once."""
        if pod not in self.views:
            self.views[pod] = job.PodInspection(self.run_in_pod(pod, job.render_inspection_script()))
        return self.views[pod]

    def run_on_nodes(self, script: str) -> list[str]:
        """Run a script on every node; return the outputs."""
        results = self.vm_run.run_on_servers(["sh", "-c", script])
        return [result.output.decode(errors="replace") for result in results]

    def _run_on_node(self, node: str, argv: list[str]) -> CommandResult:
        return execute_command(self.vm_run.lab.find_server(node).channel, argv, _SECONDS * 2)

    def wait_for(self, description: str, condition: Callable[[], bool], seconds: float = _SECONDS) -> None:
        """Wait until a condition holds; errors of the API count as False. Raises VmLabError at the deadline."""
        deadline = time.monotonic() + seconds
        while not self._is_met(condition):
            if time.monotonic() > deadline:
                raise VmLabError(f"{description}: not within {seconds:.0f} s{self._format_warnings()}")
            time.sleep(_POLL_SECONDS)

    def _is_met(self, condition: Callable[[], bool]) -> bool:
        try:
            return condition()
        except KubeError:
            return False

    def _format_warnings(self) -> str:
        """Return the last warning events of the cluster as lines of text, or the error of the API."""
        try:
            events = [event for event in self.client.list("v1", "Event") if event.get("type") == "Warning"]
        except KubeError as error:
            return f"; {error}"
        events.sort(key=_find_event_time)
        lines = [f"{event['involvedObject'].get('name')}: {event.get('message')}" for event in events[-_EVENTS:]]
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


def _find_event_time(event: Object) -> str:
    """Return when an event was last seen, in RFC 3339: kubelet writes lastTimestamp, the scheduler a series."""
    times = ((event.get("series") or {}).get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return str(next((time for time in times if time), event["metadata"]["creationTimestamp"]))


def run_phases(vm_run: vm.VmRun, client: BlockingClient, image: str) -> None:
    """Run all phases on a cluster whose servers have just come up."""
    run = ClusterRun(vm_run, client, vm_run.plan, image, [])
    vm_run.run_phase("factory", lambda: vm.check_factory_state(vm_run))
    vm_run.run_phase("apply", lambda: vm.check_apply(vm_run, remote.apply_over_channel))
    for name, work in _PHASES.items():
        vm_run.run_phase(name, partial(as_lab_errors, work, run))


def as_lab_errors(work: Callable[[ClusterRun], PhaseOutcome], run: ClusterRun) -> PhaseOutcome:
    """Run a phase; translate errors of the API and of pods into VmLabError."""
    try:
        return work(run)
    except (KubeError, PodError) as error:
        raise VmLabError(str(error)) from error


def join_and_reboot(run: ClusterRun) -> PhaseOutcome:
    """Let the servers join the cluster with their next boot, and reboot them."""
    run.run_on_nodes(node.JOIN)
    return vm.reboot_servers(run.vm_run)


def wait_for_nodes(run: ClusterRun) -> PhaseOutcome:
    """Wait until all nodes are Ready."""
    run.wait_for("all nodes Ready", lambda: all(cluster.is_node_ready(run.client, name) for name in run.node_names))
    return ", ".join(f"{name} Ready" for name in run.node_names), True


def run_doctor(run: ClusterRun) -> PhaseOutcome:
    """Record the VFs, and check that every check of every server passes."""
    run.vfs_before = run.run_on_nodes(run.listing)
    return vm.check_doctor(run.vm_run)


def apply_native(run: ClusterRun) -> PhaseOutcome:
    """Apply the objects of stack `native`; check that every rail is allocatable on every node."""
    stack_objects = list(iter_objects(load_stack(job.STACK), run.plan))
    for body in stack_objects:
        run.client.apply(body)
    run.wait_for("an agent on each node", lambda: _count_ready_agents(run) == len(run.node_names))
    run.wait_for("every rail offered by every node", lambda: all(map(bool, iter_allocatable_counts(run))))
    least = min(iter_allocatable_counts(run))
    summary = (
        f"{len(stack_objects)} objects; {len(run.node_names)} agents; each rail allocatable {least} times on each node"
    )
    return summary, True


def _count_ready_agents(run: ClusterRun) -> int:
    status: dict[str, Any] = run.client.get("apps/v1", "DaemonSet", NAME, NAMESPACE).get("status", {})
    return int(status.get("numberReady", 0))


def iter_allocatable_counts(run: ClusterRun) -> Iterator[int]:
    """Yield the allocatable count of each rail on each node: of its resource, or of devices with its number."""
    if not run.resource_names:
        yield from _iter_device_counts(run)
    for name in run.node_names:
        allocatable = run.client.get("v1", "Node", name).get("status", {}).get("allocatable", {})
        yield from (int(allocatable.get(resource, 0)) for resource in run.resource_names)


def _iter_device_counts(run: ClusterRun) -> Iterator[int]:
    """Yield how many devices of each rail each node has in ResourceSlices."""
    rails_by_node: dict[str, list[object]] = {name: [] for name in run.node_names}
    ports = {node.name: {port.netdev: port.rail for port in node.ports} for node in run.plan.nodes}
    for resource_slice in run.client.list("resource.k8s.io/v1", "ResourceSlice"):
        spec = resource_slice["spec"]
        name = spec.get("nodeName", "")
        rails = [_find_rail(device.get("attributes", {}), ports.get(name, {})) for device in spec.get("devices", [])]
        rails_by_node.get(name, []).extend(rails)
    for rails in rails_by_node.values():
        yield from (rails.count(rail) for rail in run.rails)


def _find_rail(attributes: Mapping[str, Any], rails_by_netdev: Mapping[str, int]) -> object:
    """Return the rail of a DRA device with these attributes, or None."""
    if _RAIL_ATTRIBUTE in attributes:
        return attributes[_RAIL_ATTRIBUTE].get("int")
    if not attributes.get(_RDMA_ATTRIBUTE, {}).get("bool"):
        return None
    return rails_by_netdev.get(attributes.get(_NAME_ATTRIBUTE, {}).get("string", ""))


def run_job(run: ClusterRun) -> PhaseOutcome:
    """Run the job on both nodes, and two pods with half of the rails each on the first, if rails can be shared."""
    halves = _split_rails(run)
    with measure_cost(run.vm_run, run.client):
        for body in job.build_job(run.plan, run.image, run.stack):
            run.client.create(body)
        run.wait_for("two pods of the job run", lambda: len(list_running_job_pods(run)) == len(run.node_names))
    for name, rails in halves.items():
        run.create_pod(name, rails)
    run.wait_for("two more pods run", lambda: all(map(run.is_running, halves)))
    nodes = [run.find_node(name) for name in run.list_job_pods()]
    summary = f"{len(nodes)} pods run after {run.vm_run.figures['seconds']:.0f} s, on {', '.join(nodes)}"
    if halves:
        summary += f"; {len(halves)} more on {run.node_names[0]}"
    return summary, sorted(nodes) == sorted(run.node_names)


def _split_rails(run: ClusterRun) -> dict[str, list[int]]:
    """Return the rails of two more pods, half of them each. With the job's pod they use every rail of a node twice.

    There are none where pods get the ports themselves; of a port in a pod DRANET tells no rail.
    """
    if min(iter_allocatable_counts(run)) <= 1:
        return {}
    half = len(run.rails) // 2
    return {"low": run.rails[:half], "high": run.rails[half:]}


def list_running_job_pods(run: ClusterRun) -> list[str]:
    """Return the names of the job's pods that are running."""
    return [name for name in run.list_job_pods() if run.is_running(name)]


def check_devices(run: ClusterRun) -> PhaseOutcome:
    """Check the rails and devices of all pods."""
    return check_pods(run, dict.fromkeys(run.list_job_pods(), run.rails) | _split_rails(run))


def check_pods(run: ClusterRun, rails_by_pod: Mapping[str, list[int]]) -> PhaseOutcome:
    """Check that each pod has exactly its rails and devices, and none of another pod's unless pods share the ports'."""
    with ThreadPoolExecutor(len(rails_by_pod)) as pool:
        views = dict(zip(rails_by_pod, pool.map(run.inspect_pod, rails_by_pod), strict=True))
    problems = [
        f"{name}: {problem}"
        for name, rails in rails_by_pod.items()
        for problem in _find_problems(views[name], rails, run.stack)
    ]
    nodes = {name: run.find_node(name) for name in views}
    for node_name in run.node_names:
        files = [file for name, view in views.items() if nodes[name] == node_name for file in view.files]
        if len(set(files)) != len(files) and not _shares_devices(run):
            problems.append(f"two pods on {node_name} can open the same RDMA device")
    counts = ", ".join(f"{len(view.rails)} rails and {len(view.files)} RDMA devices" for view in views.values())
    whose = "those of the ports" if _shares_devices(run) else "none of another's"
    return "; ".join(problems) or f"{counts}; {whose}", not problems


def _shares_devices(run: ClusterRun) -> bool:
    """Return whether pods of a node share the RDMA devices of its ports."""
    return load_stack(run.stack).traits.share(run.plan) is Share.SHARED


def _find_problems(view: job.PodInspection, rails: list[int], stack: str) -> Iterator[str]:
    """Yield a message for each way in which a pod differs from one with these rails."""
    if view.rails != sorted(f"rail{rail}" for rail in rails):
        yield f"has {view.rails}"
    if sorted(view.rdma) != rails or sorted(view.rdma.values()) != view.devices:
        yield f"is told of {view.rdma} and finds {view.devices}"
    if len(view.files) != len(rails):
        yield f"can open {view.files}"
    if stack == job.STACK and view.hca != job.format_hca(view.rdma):
        yield f"NCCL_IB_HCA is {view.hca}"
    if view.user != "1000 memlock unlimited":
        yield f"runs as {view.user}"


def check_pending_pod(run: ClusterRun) -> PhaseOutcome:
    """Create one more pod, check that it is Pending for lack of rails, and delete all pods but the job's."""
    run.create_pod("more", run.rails)
    run.wait_for("the scheduler reports on one more pod", lambda: bool(_find_scheduler_message(run, "more")))
    message, extra_pods = _find_scheduler_message(run, "more"), (*_split_rails(run), "more")
    reasons = [f"Insufficient {resource}" for resource in run.resource_names] or ["cannot allocate all claims"]
    ok = all(reason in message for reason in reasons)
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


def check_rdma(run: ClusterRun) -> PhaseOutcome:
    """Run the bandwidth test between the job's pods over RDMA, on all their rails at once."""
    client, server = run.list_job_pods()
    client_view, server_view = run.inspect_pod(client), run.inspect_pod(server)
    run.run_in_pod(server, job.render_bandwidth_server(server_view))
    output = run.run_in_pod(client, job.render_bandwidth_client(client_view, server_view))
    rates = {int(rail): float(rate) for rail, rate in _FIGURES.findall(output)}
    summary = f"{len(rates)} of {len(client_view.rdma)} rails as uid 1000"
    if rates:
        summary += f"; {min(rates.values()):.1f} to {max(rates.values()):.1f} MB/s each"
    if len(rates) != len(run.job_rails):
        lines = [line for line in output.splitlines() if line.strip() and not line.startswith(_format_rails(rates))]
        return f"{summary}; the clients of the others said: {' | '.join(lines[:_OUTPUT_LINES])}", False
    return summary, True


def _format_rails(rails: Iterable[int]) -> tuple[str, ...]:
    """Return how the lines of these rails begin."""
    return tuple(f"rail {rail} " for rail in rails)


def check_cm(run: ClusterRun) -> PhaseOutcome:
    """Connect the job's pods over every rail by the RDMA CM."""
    client, server = run.list_job_pods()
    client_view, server_view = run.inspect_pod(client), run.inspect_pod(server)
    with ThreadPoolExecutor(1) as pool:
        listening = pool.submit(run.run_in_pod, server, job.render_cm_server(server_view))
        output = run.run_in_pod(client, job.render_cm_client(client_view, server_view))
        listening.result()
    count = output.count("connected ")
    return f"rping over {count} of {len(client_view.rdma)} rails", count == len(run.rails)


def _end_job(run: ClusterRun) -> PhaseOutcome:
    """End the job; check that its VFs and addresses were returned."""
    end_job(run)
    statuses = run.vm_run.run_on_servers(_STATUS)
    attachments = [attachment for status in statuses for attachment in _parse_attachments(status.output)]
    count = sum(listing.count("virtfn") for listing in run.vfs_before)
    return f"the job is complete; all {count} VFs as before, {len(attachments)} addresses held", not attachments


def end_job(run: ClusterRun) -> None:
    """End the job and wait until its pods are gone and every VF is as before; measure it. Raises VmLabError."""
    with measure_cost(run.vm_run, run.client):
        _end_job_and_wait(run)
    measure_memory(run.vm_run)


def _end_job_and_wait(run: ClusterRun) -> None:
    with ThreadPoolExecutor(len(run.node_names)) as pool:
        list(pool.map(lambda name: run.run_in_pod(name, f"echo end > {job.DONE}"), run.list_job_pods()))
    run.wait_for("the job is complete", lambda: _count_succeeded(run) == len(run.node_names))
    run.client.delete(job.build_job(run.plan, run.image, run.stack)[0])
    run.wait_for("the pods are gone", lambda: not run.list_pods())
    try:
        run.wait_for("every VF is back", lambda: run.run_on_nodes(run.listing) == run.vfs_before)
    except VmLabError as error:
        raise VmLabError(f"{_describe_difference(run)}: {error}") from error


def _describe_difference(run: ClusterRun) -> str:
    """Return the lines in which the nodes' listings differ from those before the pods."""
    before, now = ("\n".join(listings).splitlines() for listings in (run.vfs_before, run.run_on_nodes(run.listing)))
    lines = [line for line in unified_diff(before, now, n=0, lineterm="") if not line.startswith(("---", "+++", "@@"))]
    return " / ".join(lines[:_OUTPUT_LINES])


def _count_succeeded(run: ClusterRun) -> int:
    status: dict[str, Any] = run.client.get("batch/v1", "Job", job.JOB, job.NAMESPACE).get("status", {})
    return int(status.get("succeeded", 0))


def _parse_attachments(status: bytes) -> list[Any]:
    """Return the attachments in an agent's status. Raises VmLabError if it has none."""
    try:
        return list(msgspec.json.decode(status, type=dict[str, Any])["attachments"])
    except (msgspec.DecodeError, KeyError) as error:
        raise VmLabError("an agent does not report its attachments") from error


_PHASES: dict[str, Callable[[ClusterRun], PhaseOutcome]] = {
    "reboot": join_and_reboot,
    "nodes": wait_for_nodes,
    "doctor": run_doctor,
    "stack": apply_native,
    "job": run_job,
    "devices": check_devices,
    "full": check_pending_pod,
    "rdma": check_rdma,
    "cm": check_cm,
    "back": _end_job,
}
