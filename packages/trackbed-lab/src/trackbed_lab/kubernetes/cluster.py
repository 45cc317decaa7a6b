"""A cluster: the control plane on loopback, with emulated servers as its nodes.

DIR/            the control plane's folder (control_plane)
DIR/servers/    the servers' folder (trackbed_lab.vm.lab)
"""

import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from trackbed.cluster.api.errors import KubeError
from trackbed.cluster.api.response import Object
from trackbed.cluster.stacks.releases import load_catalogue
from trackbed_lab.kubernetes import build, control_plane, images, node
from trackbed_lab.kubernetes.blocking import BlockingClient, connect
from trackbed_lab.kubernetes.built_image import write_product_archive
from trackbed_lab.kubernetes.preload import preload_images
from trackbed_lab.kubernetes.programs import CONTROL_PLANE, NODE, SHIM
from trackbed_lab.processes import defer_signals
from trackbed_lab.vm import lab
from trackbed_lab.vm.channel import ChannelError, execute_command
from trackbed_lab.vm.furnish import ServerFile
from trackbed_lab.vm.machine import LabShape
from trackbed_lab.vm.parts import Parts

TOOLS_IMAGE = "lab.trackbed.dev/tools:1"
"""The image of workloads: iproute2, rdma-core and perftest, for an unprivileged user."""

AGENT_IMAGE = load_catalogue()["trackbed"].releases[-1].images["agent"]
"""The agent's image, under its name in the stack `native`."""

READY_SECONDS = 300.0
"""Time for running servers to become Ready nodes; without KVM they take some 30 seconds on two idle cores."""

_STORES = "var/lib/containerd"
_POLL_SECONDS = 0.5
_ASK_SECONDS = 30.0
_NODE = "Node"


class ClusterError(Exception):
    """The cluster did not come up; the message says what is missing, with the end of the node's logs."""


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """The servers of a cluster, and the parts they are made of."""

    parts: Parts
    shape: LabShape
    join: bool = True
    """Whether the servers become nodes at their first boot."""
    bare: Collection[str] = ()
    """Names of the servers whose roots have no Python."""
    detached: bool = True
    """Whether the cluster outlives this process; else the kernel ends it with it, even if it is killed."""
    extra_images: Sequence[images.ImageSpec] = ()
    """Images that the nodes have besides the lab's."""
    extra_files: Mapping[str, ServerFile] = field(default_factory=dict)
    """Files of every node besides its own: path -> file."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster."""

    kubeconfig: Path
    servers: lab.VmLab


def locate_servers(folder: Path) -> Path:
    """Return the folder of a cluster's servers."""
    return folder / "servers"


def start_ready_cluster(folder: Path, spec: ClusterSpec, report: Callable[[str], None]) -> Cluster:
    """Start control plane and servers, and wait until all nodes are Ready.

    Raises:
        ClusterError, and the errors of `start_cluster`: it did not come up; nothing is left running.
    """
    cluster = start_cluster(folder, spec, report)
    try:
        wait_for_nodes(cluster, report)
    except BaseException:
        with defer_signals():
            stop_cluster(folder)
        raise
    return cluster


def start_cluster(folder: Path, spec: ClusterSpec, report: Callable[[str], None]) -> Cluster:
    """Start control plane and servers; the readiness of nodes is not awaited.

    Raises:
        ControlPlaneError, VmLabError, BuildError, ImageError: it did not come up; nothing is left running.
    """
    shape = replace(spec.shape, cluster=True)
    control_programs, programs, shims = (build.build_programs(group, report) for group in (CONTROL_PLANE, NODE, SHIM))
    with tempfile.TemporaryDirectory(dir=build.locate_cache()) as name, ThreadPoolExecutor(1) as pool:
        product = Path(name) / "product.tar"
        write_product_archive(product, AGENT_IMAGE, spec.parts.tools, shims / SHIM[0].name, report)
        stores = pool.submit(_make_stores, Path(name), spec, programs, product)
        kubeconfig = control_plane.start_control_plane(
            folder, control_programs, detached=spec.detached, nodes=shape.list_servers()
        )
        try:
            nodes = [
                node.NodeSpec(name, number, shape.servers, programs, spec.join, name in spec.bare)
                for number, name in enumerate(shape.list_servers())
            ]
            files = _render_node_files(folder, nodes, spec.extra_files)
            lab_spec = lab.LabSpec(spec.parts, shape, files, {_STORES: stores.result()}, detached=spec.detached)
            servers = lab.start_lab(locate_servers(folder), lab_spec, report)
            control_plane.start_gateway(folder, locate_servers(folder), detached=spec.detached)
            return Cluster(kubeconfig, servers)
        except BaseException:
            with defer_signals():
                stop_cluster(folder)
            raise


def stop_cluster(folder: Path) -> int:
    """Stop servers and control plane; return how many processes ended. Raises VmLabError, ControlPlaneError."""
    return lab.stop_lab(locate_servers(folder)) + control_plane.stop_control_plane(folder)


def _render_node_files(
    folder: Path, nodes: Sequence[node.NodeSpec], extra_files: Mapping[str, ServerFile]
) -> dict[str, Mapping[str, ServerFile]]:
    """Return the files of each node: node name -> path -> file."""
    return {
        spec.name: {
            **node.render_files(spec, control_plane.read_node_kubeconfig(folder, spec.name)),
            **extra_files,
        }
        for spec in nodes
    }


def _make_stores(folder: Path, spec: ClusterSpec, programs: Path, product: Path) -> Path:
    """Create containerd's folder with all images in it; `product` is the archive of Trackbed's."""
    pause = images.build_pause_image(programs / "pause", node.PAUSE_IMAGE)
    tools = images.build_tools_image(spec.parts.tools, TOOLS_IMAGE)
    archives = [folder / f"image-{number}.tar" for number in range(len(spec.extra_images) + 2)]
    for path, image in zip(archives, (pause, tools, *spec.extra_images), strict=True):
        path.write_bytes(images.pack_image(image))
    stores = folder / "stores"
    stores.mkdir()
    preload_images(stores, programs, [*archives, product])
    return stores


def wait_for_nodes(cluster: Cluster, report: Callable[[str], None]) -> None:
    """Wait until all nodes are Ready. Raises ClusterError."""
    start = time.monotonic()
    waiting = set(cluster.servers.shape.list_servers())
    with connect(str(cluster.kubeconfig)) as client:
        while waiting:
            for name in sorted(waiting):
                if is_node_ready(client, name):
                    report(f"{name} is Ready after {time.monotonic() - start:.1f} s")
                    waiting.remove(name)
            if time.monotonic() - start > READY_SECONDS:
                late = min(waiting)
                why = _find_ready_condition(client, late).get("message") or "its kubelet has not registered"
                logs = _read_log_end(cluster.servers, late)
                raise ClusterError(
                    f"{late} is not Ready after {READY_SECONDS:.0f} s: {why}; the end of its logs:\n{logs}"
                )
            time.sleep(_POLL_SECONDS)


def is_node_ready(client: BlockingClient, name: str) -> bool:
    """Return whether a node is Ready."""
    return _find_ready_condition(client, name).get("status") == "True"


def _find_ready_condition(client: BlockingClient, name: str) -> Object:
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
        return (
            execute_command(servers.find_server(name).channel, argv, _ASK_SECONDS)
            .output.decode(errors="replace")
            .strip()
        )
    except ChannelError as error:
        return str(error)
