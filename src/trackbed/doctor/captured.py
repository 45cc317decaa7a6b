"""Excerpts of archives of `trackbed capture`, for the checks between nodes.

Nothing is unpacked: of each archive only what an excerpt needs is held in memory, and only the excerpt is kept, so that
the archives of a whole site can be judged in the memory of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from trackbed.doctor.across.excerpt import READS, NodeExcerpt, excerpt_node
from trackbed.doctor.across.sources import PSEUDONYMOUS_PARTS
from trackbed.doctor.view import NodeView
from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.machine import Machine
from trackbed.host.snapshot import recorded_network
from trackbed.host.snapshot.captured_tree import CapturedTree, load_tree, read_link, read_tree
from trackbed.host.snapshot.snapshot import Snapshot, Wanted
from trackbed.host.snapshot.take import expand_ports
from trackbed.host.snapshot.untrusted import READ_ERRORS
from trackbed.host.state import HostState

_HOST_NAME: Final = "/proc/sys/kernel/hostname"
_NAMES: Final = frozenset(PurePosixPath(path).name for path in (*READS.files, *READS.links))
"""Names of the files and links that an excerpt needs, in whatever folder."""
_FOLDERS: Final = frozenset({"sys/class/net", "sys/class/infiniband", "sys/bus/pci/devices", "sys/module"})
"""Folders whose entries lead to these files, or are listed themselves."""
_NO_LLDP: Final = "a capture records no LLDP; use --nodes, or run trackbed doctor on the nodes"


class ForeignCaptureError(ValueError):
    """The archive is of no node of the plan."""


def excerpt_capture(archive: Path, nodes: Mapping[str, NodePlan]) -> NodeExcerpt:
    """Return the excerpt of a node from its archive; one with a failure if the archive cannot be read.

    The archive's file name names the node, otherwise the host name in it. Raises ForeignCaptureError if neither does.
    """
    name = _strip_suffixes(archive)
    try:
        tree = load_tree(archive, _NAMES, _FOLDERS)
    except READ_ERRORS as error:
        if name not in nodes:
            raise ForeignCaptureError(f"{archive} cannot be read: {error}") from error
        return NodeExcerpt(name, f"{archive} cannot be read: {error}", str(archive))
    node = _find_node(tree, archive, nodes)
    ports = {port.netdev: port.pci or _find_pci(tree, port.netdev) for port in node.ports}
    snapshot = read_tree(tree, expand_ports(READS, ports) | recorded_network.READS)
    excerpt = _excerpt_snapshot(node, snapshot, str(archive))
    return excerpt if tree.record.identified else _drop_pseudonyms(excerpt)


def _find_pci(tree: CapturedTree, netdev: str) -> str | None:
    try:
        return read_link(tree, f"/sys/class/net/{netdev}/device").rpartition("/")[2]
    except (OSError, ValueError):
        return None


def _excerpt_snapshot(node: NodePlan, snapshot: Snapshot, source: str) -> NodeExcerpt:
    """Return the excerpt of an archive's snapshot, which has the output of `ip`."""
    machine = Machine(Path("/nowhere"), unseen_reason="it is a snapshot")
    network = recorded_network.parse_network(snapshot) or recorded_network.RecordedNetwork((), (), {})
    state = HostState(machine, network.links, network.addresses, (), (), ())
    return excerpt_node(NodeView(node, state, host=snapshot, vfs=network.vfs, lldp_failure=_NO_LLDP), source)


def _drop_pseudonyms(excerpt: NodeExcerpt) -> NodeExcerpt:
    """Return an excerpt without names and addresses, which differ in each archive that was made to be sent."""
    return msgspec.structs.replace(excerpt, is_pseudonymous=True, **dict.fromkeys(PSEUDONYMOUS_PARTS))


def _find_node(tree: CapturedTree, archive: Path, nodes: Mapping[str, NodePlan]) -> NodePlan:
    text = read_tree(tree, Wanted(files=(_HOST_NAME,))).read_text(_HOST_NAME) or ""
    hostname = text.partition(".")[0]
    node = nodes.get(_strip_suffixes(archive)) or nodes.get(hostname)
    if node is None:
        reason = f"its host name {hostname!r} is no node of the fabric" if hostname else "it has no host name"
        raise ForeignCaptureError(f"{archive}: {reason}; call the file NODE.tar.gz, or capture with --identified")
    return node


def _strip_suffixes(archive: Path) -> str:
    return archive.name.removesuffix(".tgz").removesuffix(".gz").removesuffix(".tar")
