"""A whole cluster: the control plane on loopback, emulated servers as its nodes.

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
"""The image for workloads: iproute2, rdma-core, perftest, as an unprivileged user."""

AGENT = catalogue()["trackbed"].releases[-1].images["agent"]
"""The agent's image, under the name that stack `native` gives it."""

READY_SECONDS = 120.0
"""From servers that are up to nodes that are Ready; without KVM some 30 seconds on two idle cores."""

_STORES = "var/lib/containerd"
_POLL_SECONDS = 0.5
_ASK_SECONDS = 30.0
_NODE = "Node"


class ClusterError(Exception):
    """The cluster did not come up; the message says what is missing and what the node said last."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that is up."""

    kubeconfig: Path
    servers: lab.VmLab


def servers(folder: Path) -> Path:
    """Where the servers of the cluster in a folder are."""
    return folder / "servers"


def up(folder: Path, parts: Parts, shape: LabShape, say: Callable[[str], None]) -> Cluster:
    """Start control plane and servers, and wait until all nodes are Ready.

    Raises:
        ClusterError, and as `started`: it did not come up; nothing is left running.
    """
    cluster = started(folder, parts, shape, say)
    try:
        await_nodes(cluster, say)
    except BaseException:
        down(folder)
        raise
    return cluster


def started(folder: Path, parts: Parts, shape: LabShape, say: Callable[[str], None], *, joined: bool = True) -> Cluster:
    """Start control plane and servers; `joined`: as nodes, which come when they can; else as bare servers.

    Raises:
        ControlPlaneError, LabError, BuildError, ImageError: it did not come up; nothing is left running.
    """
    shape = replace(shape, cluster=True)
    planes, programs, shims = (build.build_programs(one, say) for one in (CONTROL_PLANE, NODE, SHIM))
    with tempfile.TemporaryDirectory(dir=build.locate_cache()) as made, ThreadPoolExecutor(1) as pool:
        stores = pool.submit(_stores, Path(made), parts, programs, shims)
        kubeconfig = control_plane.start_control_plane(folder, planes, nodes=shape.list_servers())
        try:
            nodes = [node.NodeSpec(*one, shape.servers, programs, joined) for one in _numbered(shape)]
            wanted = lab.LabSpec(parts, shape, _files(folder, nodes), {_STORES: stores.result()})
            there = lab.start_lab(servers(folder), wanted, say)
            control_plane.start_gateway(folder, servers(folder))
            return Cluster(kubeconfig, there)
        except BaseException:
            down(folder)
            raise


def down(folder: Path) -> int:
    """Stop servers and control plane; how many processes ended. Raises LabError, ControlPlaneError."""
    return lab.stop_lab(servers(folder)) + control_plane.stop_control_plane(folder)


def _numbered(shape: LabShape) -> list[tuple[str, int]]:
    return [(name, number) for number, name in enumerate(shape.list_servers())]


def _files(folder: Path, nodes: Sequence[node.NodeSpec]) -> dict[str, Mapping[str, ServerFile]]:
    return {one.name: node.render_files(one, control_plane.read_node_kubeconfig(folder, one.name)) for one in nodes}


def _stores(folder: Path, parts: Parts, programs: Path, shims: Path) -> Path:
    """What containerd keeps, with all images in it."""
    wanted = (
        images.build_pause_image(programs / "pause", node.PAUSE),
        images.build_tools_image(parts.tools, TOOLS),
        build_product_image(parts.tools, AGENT, shims / SHIM[0].name),
    )
    archives = [folder / f"{number}.tar" for number in range(len(wanted))]
    for path, image in zip(archives, wanted, strict=True):
        path.write_bytes(images.pack_image(image))
    stores = folder / "stores"
    stores.mkdir()
    preload_images(stores, programs, archives)
    return stores


def await_nodes(cluster: Cluster, say: Callable[[str], None]) -> None:
    """Wait until all nodes are Ready. Raises ClusterError."""
    began = time.monotonic()
    waiting = set(cluster.servers.shape.list_servers())
    with connect(str(cluster.kubeconfig)) as client:
        while waiting:
            for name in sorted(waiting):
                if is_ready(client, name):
                    say(f"{name} is Ready after {time.monotonic() - began:.1f} s")
                    waiting.remove(name)
            if time.monotonic() - began > READY_SECONDS:
                late = min(waiting)
                why = _condition(client, late).get("message") or "its kubelet has not registered"
                words = _last_words(cluster.servers, late)
                raise ClusterError(f"{late} is not Ready after {READY_SECONDS:.0f} s: {why}; it says last:\n{words}")
            time.sleep(_POLL_SECONDS)


def is_ready(client: BlockingClient, name: str) -> bool:
    """Whether a node is Ready."""
    return _condition(client, name).get("status") == "True"


def _condition(client: BlockingClient, name: str) -> Object:
    """What a node says of itself in its condition Ready; empty until there is one."""
    try:
        said = client.get("v1", _NODE, name)
    except KubeError:
        return {}
    listed = said.get("status", {}).get("conditions", [])
    return next((one for one in listed if one.get("type") == "Ready"), {})


def _last_words(servers: lab.VmLab, name: str) -> str:
    """The end of what containerd and kubelet wrote."""
    argv = ["journalctl", "-u", "containerd", "-u", "kubelet", "-n", "12", "-o", "cat", "--no-pager"]
    try:
        return execute(servers.find_server(name).channel, argv, _ASK_SECONDS).output.decode(errors="replace").strip()
    except ChannelError as error:
        return str(error)
