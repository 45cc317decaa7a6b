"""A cluster: the control plane on loopback, with emulated servers as its nodes.

DIR/            the control plane's folder (control_plane)
DIR/servers/    the servers' folder (trackbed_lab.vm.lab)
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from trackbed.cluster.api.errors import KubeError
from trackbed.cluster.api.response import Object
from trackbed.cluster.stacks.releases import catalogue
from trackbed_lab.kubernetes import build, control_plane, images, node
from trackbed_lab.kubernetes.blocking import BlockingClient, connect
from trackbed_lab.kubernetes.preload import preload_images
from trackbed_lab.kubernetes.product_image import build_product_image
from trackbed_lab.kubernetes.programs import CONTROL_PLANE, NODE, SHIM
from trackbed_lab.vm import lab
from trackbed_lab.vm.channel import ChannelError, execute
from trackbed_lab.vm.furnish import ServerFile
from trackbed_lab.vm.machine import LabShape
from trackbed_lab.vm.parts import Parts

TOOLS = "lab.trackbed.dev/tools:1"
"""The image of workloads: iproute2, rdma-core and perftest, for an unprivileged user."""

AGENT = catalogue()["trackbed"].releases[-1].images["agent"]
"""The agent's image, under its name in the stack `native`."""

READY_SECONDS = 120.0
"""Time for running servers to become Ready nodes; without KVM they take some 30 seconds on two idle cores."""

_STORES = "var/lib/containerd"
_POLL_SECONDS = 0.5
_ASK_SECONDS = 30.0
_NODE = "Node"


class ClusterError(Exception):
    """The cluster did not come up; the message says what is missing, with the end of the node's logs."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster."""

    kubeconfig: Path
    servers: lab.VmLab


def locate_servers(folder: Path) -> Path:
    """Return the folder of a cluster's servers."""
    return folder / "servers"


def start_ready_cluster(folder: Path, parts: Parts, shape: LabShape, report: Callable[[str], None]) -> Cluster:
    """Start control plane and servers, and wait until all nodes are Ready.

    Raises:
        ClusterError, and the errors of `start_cluster`: it did not come up; nothing is left running.
    """
    cluster = start_cluster(folder, parts, shape, report)
    try:
        wait_for_nodes(cluster, report)
    except BaseException:
        stop_cluster(folder)
        raise
    return cluster


def start_cluster(
    folder: Path, parts: Parts, shape: LabShape, report: Callable[[str], None], *, join: bool = True
) -> Cluster:
    """Start control plane and servers; with `join` the servers become nodes, for which this does not wait.

    Raises:
        ControlPlaneError, VmLabError, BuildError, ImageError: it did not come up; nothing is left running.
    """
    shape = replace(shape, cluster=True)
    control_programs, programs, shims = (build.build_programs(group, report) for group in (CONTROL_PLANE, NODE, SHIM))
    with tempfile.TemporaryDirectory(dir=build.locate_cache()) as name, ThreadPoolExecutor(1) as pool:
        stores = pool.submit(_make_stores, Path(name), parts, programs, shims)
        kubeconfig = control_plane.start_control_plane(folder, control_programs, nodes=shape.list_servers())
        try:
            nodes = [
                node.NodeSpec(name, number, shape.servers, programs, join)
                for number, name in enumerate(shape.list_servers())
            ]
            spec = lab.LabSpec(parts, shape, _render_node_files(folder, nodes), {_STORES: stores.result()})
            servers = lab.start_lab(locate_servers(folder), spec, report)
            control_plane.start_gateway(folder, locate_servers(folder))
            return Cluster(kubeconfig, servers)
        except BaseException:
            stop_cluster(folder)
            raise


def stop_cluster(folder: Path) -> int:
    """Stop servers and control plane; return how many processes ended. Raises VmLabError, ControlPlaneError."""
    return lab.stop_lab(locate_servers(folder)) + control_plane.stop_control_plane(folder)


def _render_node_files(folder: Path, nodes: Sequence[node.NodeSpec]) -> dict[str, Mapping[str, ServerFile]]:
    """Return the files of each node by its name."""
    return {spec.name: node.render_files(spec, control_plane.read_node_kubeconfig(folder, spec.name)) for spec in nodes}


def _make_stores(folder: Path, parts: Parts, programs: Path, shims: Path) -> Path:
    """Create containerd's folder with all images in it."""
    specs = (
        images.build_pause_image(programs / "pause", node.PAUSE),
        images.build_tools_image(parts.tools, TOOLS),
        build_product_image(parts.tools, AGENT, shims / SHIM[0].name),
    )
    archives = [folder / f"{number}.tar" for number in range(len(specs))]
    for path, spec in zip(archives, specs, strict=True):
        path.write_bytes(images.pack_image(spec))
    stores = folder / "stores"
    stores.mkdir()
    preload_images(stores, programs, archives)
    return stores


def wait_for_nodes(cluster: Cluster, report: Callable[[str], None]) -> None:
    """Wait until all nodes are Ready. Raises ClusterError."""
    start = time.monotonic()
    waiting = set(cluster.servers.shape.list_servers())
    with connect(str(cluster.kubeconfig)) as client:
        while waiting:
            for name in sorted(waiting):
                if is_ready(client, name):
                    report(f"{name} is Ready after {time.monotonic() - start:.1f} s")
                    waiting.remove(name)
            if time.monotonic() - start > READY_SECONDS:
                late = min(waiting)
                why = _find_condition(client, late).get("message") or "its kubelet has not registered"
                logs = _read_log_end(cluster.servers, late)
                raise ClusterError(
                    f"{late} is not Ready after {READY_SECONDS:.0f} s: {why}; the end of its logs:\n{logs}"
                )
            time.sleep(_POLL_SECONDS)


def is_ready(client: BlockingClient, name: str) -> bool:
    """Return whether a node is Ready."""
    return _find_condition(client, name).get("status") == "True"


def _find_condition(client: BlockingClient, name: str) -> Object:
    """Return a node's condition Ready, or {} if it has none."""
    try:
        body = client.get("v1", _NODE, name)
    except KubeError:
        return {}
    conditions = body.get("status", {}).get("conditions", [])
    return next((condition for condition in conditions if condition.get("type") == "Ready"), {})


def _read_log_end(servers: lab.VmLab, name: str) -> str:
    """Return the end of the logs of containerd and kubelet on a server."""
    argv = ["journalctl", "-u", "containerd", "-u", "kubelet", "-n", "12", "-o", "cat", "--no-pager"]
    try:
        return execute(servers.find_server(name).channel, argv, _ASK_SECONDS).output.decode(errors="replace").strip()
    except ChannelError as error:
        return str(error)
