"""The servers of a run on a cluster: started as a cluster, then the run begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.cli.options import exit_unknown
from trackbed_lab.cli.vm import choose_accelerator, report_progress

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from trackbed.fabric.plan.plan import Plan
    from trackbed_lab.kubernetes.cluster import Cluster, ClusterSpec
    from trackbed_lab.vm.machine import LabShape
    from trackbed_lab.vm.run import ReportPhase, VmRun


def start_cluster(
    folder: Path,
    shape: LabShape,
    *,
    join: bool,
    detached: bool,
    bare: Collection[str] = (),
    add: Callable[[ClusterSpec], ClusterSpec] = lambda spec: spec,
) -> Cluster:
    """Start a cluster, with its servers as nodes if `join`. Exit with status 3 if it does not come up.

    With `detached` it outlives this process. The roots of the servers named in `bare` have no Python. `add` adds
    images and files to the nodes; it may raise ImageError.

    A cluster that already runs in the folder is left alone.
    """
    from trackbed_lab.kubernetes import build, cluster, control_plane, images
    from trackbed_lab.vm import lab, parts

    errors = (build.BuildError, control_plane.ControlPlaneError, images.ImageError, lab.VmLabError)
    try:
        fetched = parts.fetch_parts(report_progress)
        spec = cluster.ClusterSpec(fetched, choose_accelerator(fetched, shape), join, bare, detached)
        return cluster.start_cluster(folder, add(spec), report_progress)
    except (*errors, parts.PartsError, OSError) as error:
        exit_unknown(str(error))


def begin_run(lab_cluster: Cluster, fabric: tuple[bytes, Plan], seconds: float, report: ReportPhase) -> VmRun:
    """Begin a run on servers that took `seconds` to come up; `fabric` is a Fabric's bytes and its plan."""
    from trackbed_lab.kubernetes import build
    from trackbed_lab.run_result import Phase
    from trackbed_lab.vm import run as vm

    content, plan = fabric
    shape = lab_cluster.servers.shape
    summary = f"{shape.servers} servers of {shape.rails} igb NICs, Linux {lab_cluster.servers.kernel}; Kubernetes "
    boot = Phase("servers", seconds, summary + build.read_kubernetes_version())
    return vm.begin_run(lab_cluster.servers, plan, content, boot, report)
