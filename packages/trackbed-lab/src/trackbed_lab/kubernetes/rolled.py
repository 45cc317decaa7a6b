"""The second run over a real cluster: nodes in factory state, a chart, one Fabric, and a job with one annotation.

factory    nothing of the plan is on the servers, which are nodes already
nodes      kubelets are Ready
install    `helm install` of the chart as it would be of a version before; controller, webhook and agents run
fabric     `kubectl apply -f fabric.yaml`; the controller drains, changes and reboots both nodes, and lets them go
rails      every rail is offered by every node
doctor     every check of every server passes
job        two pods whose template says `trackbed.dev/rails: all` and nothing else of networks are scheduled and run
devices    each sees exactly its rails and can open exactly its RDMA devices
rdma       writes between them on every rail, by an unprivileged user
upgrade    `helm upgrade` to the chart as it is: every pod of it is another one; the job's pods keep what they have
uninstall  `helm uninstall`; no object is there that was not before
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
from trackbed_lab.kubernetes.run import Cluster, checked, have, offers, rdma, running
from trackbed_lab.vm import run as vm
from trackbed_lab.vm.channel import read_boot_id
from trackbed_lab.vm.lab import VmLabError

NAMESPACE = "trackbed-system"
RELEASE = "trackbed"
INSTALL_SECONDS = 240.0
ROLL_SECONDS = 480.0
"""For both nodes: drained, changed, rebooted, as planned."""
_SECONDS = 300.0
_BEFORE = "0.0.1"
"""What the version before calls itself."""
_CENSUS = '{range .items[*]}{.apiVersion} {.kind} {.metadata.namespace}/{.metadata.name}{"\\n"}{end}'
_NO_MATTER = frozenset({"events", "events.events.k8s.io", "csinodes.storage.k8s.io"})
"""Kinds of what comes and goes by itself."""
_OF_ANY_NAMESPACE = {
    f"v1 Namespace /{NAMESPACE}",
    f"v1 ConfigMap {NAMESPACE}/kube-root-ca.crt",
    f"v1 ServiceAccount {NAMESPACE}/default",
}


@dataclass(frozen=True, slots=True)
class Tools:
    """Programs that a user has, and what he gives them."""

    helm: Path
    kubectl: Path
    chart: Path
    kubeconfig: Path
    folder: Path
    """For files of this run."""

    def run(self, program: Path, *words: str) -> str:
        """What a program says. Raises LabError with its last words where it fails."""
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "HELM_CACHE_HOME": str(self.folder / "helm")}
        try:
            done = subprocess.run(  # noqa: S603 - built here
                [str(program), *words],
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise VmLabError(f"{program.name} {words[0]}: {error}") from error
        if done.returncode:
            raise VmLabError(f"{program.name} {words[0]}: {done.stderr.strip()}")
        return done.stdout


def run(course: vm.VmRun, client: BlockingClient, fabric: bytes, tools: Tools, *, stays: bool) -> None:
    """Go through all phases on a cluster whose servers have just come up as nodes; `stays`: nothing is uninstalled."""
    here = Cluster(course, client, course.plan, cluster.TOOLS, [])
    (tools.folder / "fabric.yaml").write_bytes(fabric)
    before: set[str] = set()
    course.run_phase("factory", lambda: vm.check_factory_state(course))
    phases: dict[str, Callable[[Cluster], tuple[str, bool]]] = {
        "nodes": partial(_nodes, tools, before),
        "install": partial(_install, tools),
        "fabric": partial(_fabric, tools),
        "rails": _rails,
        "doctor": lambda here: vm.check_doctor(here.course),
        "job": _job,
        "devices": _devices,
        "rdma": rdma,
        "upgrade": partial(_upgrade, tools),
    }
    if not stays:
        phases["uninstall"] = partial(_uninstall, tools, before)
    for name, work in phases.items():
        course.run_phase(name, partial(checked, work, here))


def _nodes(tools: Tools, before: set[str], here: Cluster) -> tuple[str, bool]:
    here.until("all nodes Ready", lambda: all(cluster.is_ready(here.client, name) for name in here.names))
    before |= _census(tools)
    return ", ".join(f"{name} Ready" for name in here.names), True


def _install(tools: Tools, here: Cluster) -> tuple[str, bool]:
    versions = ("--version", _BEFORE, "--app-version", _BEFORE)
    tools.run(tools.helm, "package", str(tools.chart), "--destination", str(tools.folder), *versions)
    chart = tools.folder / f"trackbed-{_BEFORE}.tgz"
    _chart(tools, "install", chart, "Never", "--create-namespace")
    here.until("everything that the chart brings runs", lambda: not _late(here.client), INSTALL_SECONDS)
    return f"{len(_pods(here.client))} pods run", True


def _chart(tools: Tools, verb: str, chart: Path, pull: str, *more: str) -> None:
    """Have helm do it; with another `pull` than before, all pods are others afterwards: there is one image here."""
    repository, _, tag = cluster.AGENT.rpartition(":")
    image = f"image.repository={repository},image.tag={tag},image.pullPolicy={pull}"
    tools.run(tools.helm, verb, RELEASE, str(chart), "--namespace", NAMESPACE, "--set", image, *more)


def _pods(client: BlockingClient) -> set[str]:
    return {one["metadata"]["name"] for one in client.list("v1", "Pod", NAMESPACE)}


def _late(client: BlockingClient) -> list[str]:
    """What of the chart is not up yet, in its newest version."""
    sets = (
        ("Deployment", "replicas", ("updatedReplicas", "readyReplicas")),
        ("DaemonSet", "desiredNumberScheduled", ("updatedNumberScheduled", "numberReady")),
    )
    return [
        one["metadata"]["name"]
        for kind, wanted, counts in sets
        for one in client.list("apps/v1", kind, NAMESPACE)
        if _falls_short(one, wanted, counts)
    ]


def _falls_short(one: Object, wanted: str, counts: Sequence[str]) -> bool:
    status: Mapping[str, int] = one.get("status", {})
    least = min(status.get(count, 0) for count in counts)
    return status.get("observedGeneration", 0) < one["metadata"]["generation"] or least < status.get(wanted, 1)


def _fabric(tools: Tools, here: Cluster) -> tuple[str, bool]:
    before = _boots(here)
    tools.run(tools.kubectl, "apply", "-f", str(tools.folder / "fabric.yaml"))
    here.until("both nodes as planned", lambda: set(_stages(here)) == {"Sound"}, ROLL_SECONDS)
    here.until("both nodes take pods", lambda: not _kept(here.client))
    rebooted = [name for name, old, new in zip(here.names, before, _boots(here), strict=True) if old != new]
    told = " | ".join(tools.run(tools.kubectl, "get", "fabric", "--no-headers").split())
    return f"{', '.join(rebooted)} rebooted; {told}", len(rebooted) == len(here.names)


def _boots(here: Cluster) -> list[str]:
    return [read_boot_id(here.course.lab.find_server(name).channel, _SECONDS) for name in here.names]


def _stages(here: Cluster) -> list[str]:
    """The stage of each node."""
    found = {one["metadata"]["name"]: one for one in here.client.list(railnode.API_VERSION, railnode.KIND)}
    return [_stage(found.get(name, {})) for name in here.names]


def _stage(rail: Object) -> str:
    conditions: list[Object] = rail.get("status", {}).get("conditions", [])
    return next((str(one["reason"]) for one in conditions if one["type"] == railnode.ROLLED), "")


def _kept(client: BlockingClient) -> list[str]:
    """Nodes that take no pods."""
    specs: Mapping[str, Any] = {one["metadata"]["name"]: one.get("spec", {}) for one in client.list("v1", "Node")}
    return [name for name, spec in specs.items() if spec.get("unschedulable") or spec.get("taints")]


def _rails(here: Cluster) -> tuple[str, bool]:
    here.until("every rail offered by every node", lambda: all(map(bool, offers(here))))
    return f"each rail can be had {min(offers(here))} times on each node", True


def _job(here: Cluster) -> tuple[str, bool]:
    here.client.create(job.annotated(here.image))
    here.until("two pods of the job run", lambda: len(running(here)) == len(here.names))
    places = [here.node_of(name) for name in here.of_job()]
    return f"{len(places)} pods run, on {', '.join(places)}", sorted(places) == sorted(here.names)


def _devices(here: Cluster) -> tuple[str, bool]:
    rails = [rail.rail for rail in here.plan.common.rails]
    return have(here, dict.fromkeys(here.of_job(), rails))


def _upgrade(tools: Tools, here: Cluster) -> tuple[str, bool]:
    before = _pods(here.client)
    _chart(tools, "upgrade", tools.chart, "IfNotPresent")
    here.until("the new version of everything runs", lambda: not _late(here.client), INSTALL_SECONDS)
    here.until("the pods before are gone", lambda: not before & _pods(here.client))
    here.seen.clear()
    told, ok = _devices(here)
    return f"{len(before)} pods replaced; {told}", ok and set(_stages(here)) == {"Sound"}


def _uninstall(tools: Tools, before: set[str], here: Cluster) -> tuple[str, bool]:
    """Nothing is left but what every namespace has."""
    here.client.delete(job.annotated(here.image))
    here.until("the pods are gone", lambda: not here.pods())
    tools.run(tools.helm, "uninstall", RELEASE, "--namespace", NAMESPACE, "--wait")
    left: list[str] = []

    def same() -> bool:
        left[:] = sorted(_census(tools) - before - _OF_ANY_NAMESPACE)
        return not left

    with suppress(VmLabError):
        here.until("all objects gone", same)
    return (
        f"left: {', '.join(left)}" if left else f"all that is there was there before: {len(before)} objects",
        not left,
    )


def _census(tools: Tools) -> set[str]:
    """Every object of the cluster but those that come and go by themselves, as the leases of nodes do."""
    kinds = tools.run(tools.kubectl, "api-resources", "--verbs=list", "-o", "name").split()
    wanted = ",".join(one for one in kinds if one not in _NO_MATTER)
    told = tools.run(tools.kubectl, "get", wanted, "--all-namespaces", "-o", f"jsonpath={_CENSUS}")
    return {line for line in told.splitlines() if " kube-node-lease/" not in line}
