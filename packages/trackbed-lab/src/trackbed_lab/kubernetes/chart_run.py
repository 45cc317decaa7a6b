"""A run over a cluster by the chart: nodes in factory state, a chart, one Fabric, and a job with one annotation.

factory    nothing of the plan is applied on the servers, which are nodes already
nodes      kubelets are Ready
install    `helm install` of the chart with an earlier version number; controller, webhook and agents run
fabric     `kubectl apply -f fabric.yaml`; the controller drains, changes, reboots and uncordons both nodes
rails      every rail is allocatable on every node
doctor     every check of every server passes
job        two pods whose only mention of networks is the annotation `trackbed.dev/rails: all` run
devices    each pod sees exactly its rails and can open exactly its RDMA devices
rdma       writes between them on every rail, by an unprivileged user
upgrade    `helm upgrade` to the present chart replaces every pod of it; the job's pods keep their rails
uninstall  `helm uninstall`; only the objects from before the installation remain
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from trackbed.cluster.api.response import Object
from trackbed.cluster.resources import railnode
from trackbed_lab.kubernetes import cluster, job
from trackbed_lab.kubernetes.blocking import BlockingClient
from trackbed_lab.kubernetes.run import ClusterRun, as_lab_errors, check_pods, check_rdma, iter_offers, list_running
from trackbed_lab.vm import run as vm
from trackbed_lab.vm.channel import read_boot_id
from trackbed_lab.vm.lab import VmLabError

NAMESPACE = "trackbed-system"
RELEASE = "trackbed"
INSTALL_SECONDS = 240.0
ROLL_SECONDS = 480.0
"""Time for both nodes to be drained, changed and rebooted."""
_SECONDS = 300.0
_EARLIER = "0.0.1"
"""Version of the chart that is installed before the upgrade."""
_CENSUS = '{range .items[*]}{.apiVersion} {.kind} {.metadata.namespace}/{.metadata.name}{"\\n"}{end}'
_VOLATILE = frozenset({"events", "events.events.k8s.io", "csinodes.storage.k8s.io"})
"""Kinds whose objects come and go by themselves."""
_NAMESPACE_OBJECTS = {
    f"v1 Namespace /{NAMESPACE}",
    f"v1 ConfigMap {NAMESPACE}/kube-root-ca.crt",
    f"v1 ServiceAccount {NAMESPACE}/default",
}
"""Objects of every namespace, which helm does not delete."""


@dataclass(frozen=True, slots=True)
class Tools:
    """The programs of a user, and their inputs."""

    helm: Path
    kubectl: Path
    chart: Path
    kubeconfig: Path
    folder: Path
    """Folder for files of this run."""

    def run(self, program: Path, *arguments: str) -> str:
        """Run a program and return its output. Raises VmLabError with its errors if it fails."""
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "HELM_CACHE_HOME": str(self.folder / "helm")}
        try:
            process = subprocess.run(  # noqa: S603 - built by the lab
                [str(program), *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise VmLabError(f"{program.name} {arguments[0]}: {error}") from error
        if process.returncode:
            raise VmLabError(f"{program.name} {arguments[0]}: {process.stderr.strip()}")
        return process.stdout


def run_phases(vm_run: vm.VmRun, client: BlockingClient, fabric: bytes, tools: Tools, *, keep: bool) -> None:
    """Run all phases on a cluster whose servers have just come up as nodes; with `keep` nothing is uninstalled."""
    run = ClusterRun(vm_run, client, vm_run.plan, cluster.TOOLS, [])
    (tools.folder / "fabric.yaml").write_bytes(fabric)
    census: set[str] = set()
    vm_run.run_phase("factory", lambda: vm.check_factory_state(vm_run))
    phases: dict[str, Callable[[ClusterRun], tuple[str, bool]]] = {
        "nodes": partial(_wait_for_nodes, tools, census),
        "install": partial(_install, tools),
        "fabric": partial(_apply_fabric, tools),
        "rails": _wait_for_rails,
        "doctor": lambda run: vm.check_doctor(run.vm_run),
        "job": _run_job,
        "devices": _check_devices,
        "rdma": check_rdma,
        "upgrade": partial(_upgrade, tools),
    }
    if not keep:
        phases["uninstall"] = partial(_uninstall, tools, census)
    for name, work in phases.items():
        vm_run.run_phase(name, partial(as_lab_errors, work, run))


def _wait_for_nodes(tools: Tools, census: set[str], run: ClusterRun) -> tuple[str, bool]:
    """Wait until all nodes are Ready, then add the cluster's objects to `census`."""
    run.wait_for("all nodes Ready", lambda: all(cluster.is_ready(run.client, name) for name in run.names))
    census |= _take_census(tools)
    return ", ".join(f"{name} Ready" for name in run.names), True


def _install(tools: Tools, run: ClusterRun) -> tuple[str, bool]:
    versions = ("--version", _EARLIER, "--app-version", _EARLIER)
    tools.run(tools.helm, "package", str(tools.chart), "--destination", str(tools.folder), *versions)
    chart = tools.folder / f"trackbed-{_EARLIER}.tgz"
    _run_helm(tools, "install", chart, "Never", "--create-namespace")
    run.wait_for("everything that the chart brings runs", lambda: not _list_late(run.client), INSTALL_SECONDS)
    return f"{len(_list_pods(run.client))} pods run", True


def _run_helm(tools: Tools, verb: str, chart: Path, pull_policy: str, *options: str) -> None:
    """Install or upgrade the chart. There is one image, so a new `pull_policy` is what replaces all pods."""
    repository, _, tag = cluster.AGENT.rpartition(":")
    image = f"image.repository={repository},image.tag={tag},image.pullPolicy={pull_policy}"
    tools.run(tools.helm, verb, RELEASE, str(chart), "--namespace", NAMESPACE, "--set", image, *options)


def _list_pods(client: BlockingClient) -> set[str]:
    return {pod["metadata"]["name"] for pod in client.list("v1", "Pod", NAMESPACE)}


def _list_late(client: BlockingClient) -> list[str]:
    """Return the chart's workloads whose newest version is not completely ready."""
    kinds = (
        ("Deployment", "replicas", ("updatedReplicas", "readyReplicas")),
        ("DaemonSet", "desiredNumberScheduled", ("updatedNumberScheduled", "numberReady")),
    )
    return [
        workload["metadata"]["name"]
        for kind, target, counts in kinds
        for workload in client.list("apps/v1", kind, NAMESPACE)
        if _is_late(workload, target, counts)
    ]


def _is_late(workload: Object, target: str, counts: Sequence[str]) -> bool:
    status: Mapping[str, int] = workload.get("status", {})
    least = min(status.get(count, 0) for count in counts)
    return status.get("observedGeneration", 0) < workload["metadata"]["generation"] or least < status.get(target, 1)


def _apply_fabric(tools: Tools, run: ClusterRun) -> tuple[str, bool]:
    before = _read_boot_ids(run)
    tools.run(tools.kubectl, "apply", "-f", str(tools.folder / "fabric.yaml"))
    run.wait_for("both nodes as planned", lambda: set(_list_stages(run)) == {"Sound"}, ROLL_SECONDS)
    run.wait_for("both nodes take pods", lambda: not _list_unschedulable(run.client))
    after = _read_boot_ids(run)
    rebooted = [name for name, old, new in zip(run.names, before, after, strict=True) if old != new]
    columns = " | ".join(tools.run(tools.kubectl, "get", "fabric", "--no-headers").split())
    return f"{', '.join(rebooted)} rebooted; {columns}", len(rebooted) == len(run.names)


def _read_boot_ids(run: ClusterRun) -> list[str]:
    return [read_boot_id(run.vm_run.lab.find_server(name).channel, _SECONDS) for name in run.names]


def _list_stages(run: ClusterRun) -> list[str]:
    """Return the stage of each node."""
    rails = {rail["metadata"]["name"]: rail for rail in run.client.list(railnode.API_VERSION, railnode.KIND)}
    return [_find_stage(rails.get(name, {})) for name in run.names]


def _find_stage(rail: Object) -> str:
    conditions: list[Object] = rail.get("status", {}).get("conditions", [])
    return next((str(condition["reason"]) for condition in conditions if condition["type"] == railnode.ROLLED), "")


def _list_unschedulable(client: BlockingClient) -> list[str]:
    """Return the nodes that are cordoned or tainted."""
    specs: Mapping[str, Any] = {node["metadata"]["name"]: node.get("spec", {}) for node in client.list("v1", "Node")}
    return [name for name, spec in specs.items() if spec.get("unschedulable") or spec.get("taints")]


def _wait_for_rails(run: ClusterRun) -> tuple[str, bool]:
    run.wait_for("every rail offered by every node", lambda: all(map(bool, iter_offers(run))))
    return f"each rail can be had {min(iter_offers(run))} times on each node", True


def _run_job(run: ClusterRun) -> tuple[str, bool]:
    run.client.create(job.build_annotated_job(run.image))
    run.wait_for("two pods of the job run", lambda: len(list_running(run)) == len(run.names))
    nodes = [run.find_node(name) for name in run.list_job_pods()]
    return f"{len(nodes)} pods run, on {', '.join(nodes)}", sorted(nodes) == sorted(run.names)


def _check_devices(run: ClusterRun) -> tuple[str, bool]:
    return check_pods(run, dict.fromkeys(run.list_job_pods(), run.rails))


def _upgrade(tools: Tools, run: ClusterRun) -> tuple[str, bool]:
    before = _list_pods(run.client)
    _run_helm(tools, "upgrade", tools.chart, "IfNotPresent")
    run.wait_for("the new version of everything runs", lambda: not _list_late(run.client), INSTALL_SECONDS)
    run.wait_for("the pods before are gone", lambda: not before & _list_pods(run.client))
    run.views.clear()
    summary, ok = _check_devices(run)
    return f"{len(before)} pods replaced; {summary}", ok and set(_list_stages(run)) == {"Sound"}


def _uninstall(tools: Tools, census: set[str], run: ClusterRun) -> tuple[str, bool]:
    """Uninstall the chart; check that only objects of `census` and of every namespace remain."""
    run.client.delete(job.build_annotated_job(run.image))
    run.wait_for("the pods are gone", lambda: not run.list_pods())
    tools.run(tools.helm, "uninstall", RELEASE, "--namespace", NAMESPACE, "--wait")
    left: list[str] = []

    def is_clean() -> bool:
        left[:] = sorted(_take_census(tools) - census - _NAMESPACE_OBJECTS)
        return not left

    with suppress(VmLabError):
        run.wait_for("all objects gone", is_clean)
    if left:
        return f"left: {', '.join(left)}", False
    return f"all that is there was there before: {len(census)} objects", True


def _take_census(tools: Tools) -> set[str]:
    """Return every object of the cluster except for volatile ones, which include the leases of nodes."""
    kinds = tools.run(tools.kubectl, "api-resources", "--verbs=list", "-o", "name").split()
    names = ",".join(kind for kind in kinds if kind not in _VOLATILE)
    listing = tools.run(tools.kubectl, "get", names, "--all-namespaces", "-o", f"jsonpath={_CENSUS}")
    return {line for line in listing.splitlines() if " kube-node-lease/" not in line}
