"""A run over a cluster by the chart: nodes in factory state, a chart, one Fabric, and a job with one annotation.

factory    nothing of the plan is applied on the servers, which are nodes already
nodes      kubelets are Ready; the root of the last node has no Python
install    `helm install` of the chart with an earlier version number; controller, webhook and agents run
fabric     `kubectl apply -f fabric.yaml`; the controller drains, changes, reboots and uncordons both nodes
rails      every rail is allocatable on every node
doctor     every check of every server passes
job        two pods whose only mention of networks is the annotation `trackbed.dev/rails: all` run
devices    each pod sees exactly its rails and can open exactly its RDMA devices
rdma       writes between them on every rail, by an unprivileged user
drift      three times QoS and a sysctl are changed by hand; they are repaired in place, and the job runs on
misfit     a Fabric with other ports is refused; addresses, rules and routes stay byte for byte
upgrade    `helm upgrade` to the present chart replaces every pod of it; the job's pods keep their rails
uninstall  `helm uninstall`; only the objects from before the installation remain
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from trackbed.cluster.api.response import Object
from trackbed.cluster.resources import railnode
from trackbed_lab.kubernetes import bare_node, cluster, drift, job
from trackbed_lab.kubernetes.blocking import BlockingClient
from trackbed_lab.kubernetes.chart_tools import NAMESPACE, TIMEOUT_SECONDS, Tools
from trackbed_lab.kubernetes.run import (
    ClusterRun,
    as_lab_errors,
    check_pods,
    check_rdma,
    iter_allocatable_counts,
    list_running_job_pods,
)
from trackbed_lab.run_result import PhaseOutcome
from trackbed_lab.vm import run as vm
from trackbed_lab.vm.channel import execute_command, read_boot_id
from trackbed_lab.vm.lab import VmLabError

RELEASE = "trackbed"
INSTALL_SECONDS = 600.0
ROLL_SECONDS = 1200.0
"""Time for both nodes to be drained, changed and rebooted."""
_EARLIER_VERSION = "0.0.1"
"""Version of the chart that is installed before the upgrade."""
_NAME_TEMPLATE = '{range .items[*]}{.apiVersion} {.kind} {.metadata.namespace}/{.metadata.name}{"\\n"}{end}'
_VOLATILE_RESOURCES = frozenset({"events", "events.events.k8s.io", "csinodes.storage.k8s.io"})
"""Resources whose objects the control plane creates and deletes by itself."""
_NAMESPACE_OBJECTS = {
    f"v1 Namespace /{NAMESPACE}",
    f"v1 ConfigMap {NAMESPACE}/kube-root-ca.crt",
    f"v1 ServiceAccount {NAMESPACE}/default",
}
"""Objects of every namespace, which helm does not delete."""


def run_phases(vm_run: vm.VmRun, client: BlockingClient, fabric: bytes, tools: Tools, *, keep: bool) -> None:
    """Run all phases on a cluster whose servers have just come up as nodes; with `keep` nothing is uninstalled."""
    run = ClusterRun(vm_run, client, vm_run.plan, cluster.TOOLS_IMAGE, [])
    (tools.folder / "fabric.yaml").write_bytes(fabric)
    objects_before: set[str] = set()
    vm_run.run_phase("factory", lambda: vm.check_factory_state(vm_run))
    phases: dict[str, Callable[[ClusterRun], PhaseOutcome]] = {
        "nodes": partial(_wait_for_nodes_and_record_objects, tools, objects_before),
        "install": partial(_install_chart, tools),
        "fabric": partial(_apply_fabric, tools),
        "rails": _wait_for_rails,
        "doctor": lambda run: vm.check_doctor(run.vm_run),
        "job": _run_job,
        "devices": _check_devices,
        "rdma": check_rdma,
        "drift": partial(drift.check_repair, tools),
        "misfit": partial(drift.check_refusal, tools, _list_stages),
        "upgrade": partial(_upgrade_chart, tools),
    }
    if not keep:
        phases["uninstall"] = partial(_uninstall_chart, tools, objects_before)
    for name, work in phases.items():
        vm_run.run_phase(name, partial(as_lab_errors, work, run))


def _wait_for_nodes_and_record_objects(tools: Tools, objects_before: set[str], run: ClusterRun) -> PhaseOutcome:
    """Wait until all nodes are Ready, then add the names of the cluster's objects to `objects_before`."""
    run.wait_for("all nodes Ready", lambda: all(cluster.is_node_ready(run.client, name) for name in run.node_names))
    objects_before |= _read_object_names(tools)
    summary = ", ".join(f"{name} Ready" for name in run.node_names)
    *full, bare = (_find_python(run, name) for name in run.node_names)
    return f"{summary}; {run.node_names[-1]} has {bare or 'no Python'}", not bare and all(full)


def _find_python(run: ClusterRun, node_name: str) -> str:
    """Return the paths of each Python in the root of a node's process 1; "" if it has none."""
    channel = run.vm_run.lab.find_server(node_name).channel
    result = execute_command(channel, bare_node.build_find_command(), TIMEOUT_SECONDS)
    return " ".join(result.output.decode(errors="replace").split())


def _install_chart(tools: Tools, run: ClusterRun) -> PhaseOutcome:
    versions = ("--version", _EARLIER_VERSION, "--app-version", _EARLIER_VERSION)
    tools.run(tools.helm, "package", str(tools.chart), "--destination", str(tools.folder), *versions)
    chart = tools.folder / f"trackbed-{_EARLIER_VERSION}.tgz"
    _run_helm(tools, "install", chart, "Never", "--create-namespace")
    _wait_for_rollouts(run, "the chart")
    return f"{len(_list_pods(run.client))} pods run", True


def _wait_for_rollouts(run: ClusterRun, version: str) -> None:
    """Wait until all workloads of the chart are ready. Raises VmLabError with the names of the others."""
    try:
        run.wait_for(
            f"all workloads of {version} are ready", lambda: not _list_unfinished_rollouts(run.client), INSTALL_SECONDS
        )
    except VmLabError as error:
        raise VmLabError(f"{', '.join(_list_unfinished_rollouts(run.client))}: {error}") from error


def _run_helm(tools: Tools, verb: str, chart: Path, pull_policy: str, *options: str) -> None:
    """Install or upgrade the chart. Both versions have the same image, so a new `pull_policy` replaces all pods."""
    repository, _, tag = cluster.AGENT_IMAGE.rpartition(":")
    image = f"image.repository={repository},image.tag={tag},image.pullPolicy={pull_policy}"
    tools.run(tools.helm, verb, RELEASE, str(chart), "--namespace", NAMESPACE, "--set", image, *options)


def _list_pods(client: BlockingClient) -> set[str]:
    return {pod["metadata"]["name"] for pod in client.list("v1", "Pod", NAMESPACE)}


def _list_unfinished_rollouts(client: BlockingClient) -> list[str]:
    """Return the names of the chart's workloads whose latest revision is not fully ready."""
    kinds = (
        ("Deployment", "replicas", ("updatedReplicas", "readyReplicas")),
        ("DaemonSet", "desiredNumberScheduled", ("updatedNumberScheduled", "numberReady")),
    )
    return [
        workload["metadata"]["name"]
        for kind, target, counts in kinds
        for workload in client.list("apps/v1", kind, NAMESPACE)
        if _is_rollout_unfinished(workload, target, counts)
    ]


def _is_rollout_unfinished(workload: Object, target: str, counts: Sequence[str]) -> bool:
    status: Mapping[str, int] = workload.get("status", {})
    least = min(status.get(count, 0) for count in counts)
    return status.get("observedGeneration", 0) < workload["metadata"]["generation"] or least < status.get(target, 1)


def _apply_fabric(tools: Tools, run: ClusterRun) -> PhaseOutcome:
    before = _read_boot_ids(run)
    tools.apply(tools.folder / "fabric.yaml")
    run.wait_for("both nodes as planned", lambda: set(_list_stages(run)) == {"Sound"}, ROLL_SECONDS)
    run.wait_for("both nodes schedulable", lambda: not _list_unschedulable_nodes(run.client))
    after = _read_boot_ids(run)
    rebooted = [name for name, old, new in zip(run.node_names, before, after, strict=True) if old != new]
    columns = " | ".join(tools.run(tools.kubectl, "get", "fabric", "--no-headers").split())
    return f"{', '.join(rebooted)} rebooted; {columns}", len(rebooted) == len(run.node_names)


def _read_boot_ids(run: ClusterRun) -> list[str]:
    return [read_boot_id(run.vm_run.lab.find_server(name).channel, TIMEOUT_SECONDS) for name in run.node_names]


def _list_stages(run: ClusterRun) -> list[str]:
    """Return the stage of each node."""
    rails = {rail["metadata"]["name"]: rail for rail in run.client.list(railnode.API_VERSION, railnode.KIND)}
    return [_find_stage(rails.get(name, {})) for name in run.node_names]


def _find_stage(rail: Object) -> str:
    conditions: list[Object] = rail.get("status", {}).get("conditions", [])
    return next((str(condition["reason"]) for condition in conditions if condition["type"] == railnode.ROLLED), "")


def _list_unschedulable_nodes(client: BlockingClient) -> list[str]:
    """Return the nodes that are cordoned or tainted."""
    specs: Mapping[str, Any] = {node["metadata"]["name"]: node.get("spec", {}) for node in client.list("v1", "Node")}
    return [name for name, spec in specs.items() if spec.get("unschedulable") or spec.get("taints")]


def _wait_for_rails(run: ClusterRun) -> PhaseOutcome:
    run.wait_for("every rail offered by every node", lambda: all(map(bool, iter_allocatable_counts(run))))
    return f"each rail allocatable {min(iter_allocatable_counts(run))} times on each node", True


def _run_job(run: ClusterRun) -> PhaseOutcome:
    run.client.create(job.build_annotated_job(run.image, _format_rails(run)))
    run.wait_for("two pods of the job run", lambda: len(list_running_job_pods(run)) == len(run.node_names))
    nodes = [run.find_node(name) for name in run.list_job_pods()]
    return f"{len(nodes)} pods run, on {', '.join(nodes)}", sorted(nodes) == sorted(run.node_names)


def _format_rails(run: ClusterRun) -> str:
    """Return the annotation of the job's pods; in mode move one rail stays on the host, to be changed there."""
    return "all" if run.job_rails == run.rails else str(len(run.job_rails))


def _check_devices(run: ClusterRun) -> PhaseOutcome:
    return check_pods(run, dict.fromkeys(run.list_job_pods(), run.job_rails))


def _upgrade_chart(tools: Tools, run: ClusterRun) -> PhaseOutcome:
    before = _list_pods(run.client)
    _run_helm(tools, "upgrade", tools.chart, "IfNotPresent")
    _wait_for_rollouts(run, "the new version")
    run.wait_for("the pods before are gone", lambda: not before & _list_pods(run.client))
    run.views.clear()
    summary, ok = _check_devices(run)
    return f"{len(before)} pods replaced; {summary}", ok and set(_list_stages(run)) == {"Sound"}


def _uninstall_chart(tools: Tools, objects_before: set[str], run: ClusterRun) -> PhaseOutcome:
    """Uninstall the chart; check that only `objects_before` and the objects of every namespace remain."""
    run.client.delete(job.build_annotated_job(run.image, _format_rails(run)))
    run.wait_for("the pods are gone", lambda: not run.list_pods())
    tools.run(tools.helm, "uninstall", RELEASE, "--namespace", NAMESPACE, "--wait")
    left: list[str] = []

    def is_clean() -> bool:
        left[:] = sorted(_read_object_names(tools) - objects_before - _NAMESPACE_OBJECTS)
        return not left

    with suppress(VmLabError):
        run.wait_for("all objects gone", is_clean)
    if left:
        return f"left: {', '.join(left)}", False
    return f"only the {len(objects_before)} objects from before the installation remain", True


def _read_object_names(tools: Tools) -> set[str]:
    """Return version, kind and name of every object in the cluster, without volatile ones and the leases of nodes."""
    kinds = tools.run(tools.kubectl, "api-resources", "--verbs=list", "-o", "name").split()
    names = ",".join(kind for kind in kinds if kind not in _VOLATILE_RESOURCES)
    listing = tools.run(tools.kubectl, "get", names, "--all-namespaces", "-o", f"jsonpath={_NAME_TEMPLATE}")
    return {line for line in listing.splitlines() if " kube-node-lease/" not in line}
