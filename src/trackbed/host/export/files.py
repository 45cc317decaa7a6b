"""The files of one host, whichever tool brings them there: network, steps' own files, each with its permissions.

The same bytes as `trackbed apply` writes. A setting's `needs` (a file means nothing where, say, no containerd is) are
not asked here: the host may not even be installed yet, and a file whose program is missing does nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from operator import attrgetter

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.formats import Format, choose_mode
from trackbed.host.kinds import file
from trackbed.host.render import FORMATS
from trackbed.host.steps import WITH_FILES, list_settings

OWN = (
    "/etc/netplan/90-trackbed.yaml",
    "/etc/systemd/network/10-trackbed-*.link",
    "/etc/systemd/network/10-trackbed-*.network",
    "/etc/systemd/network/10-netplan-*.network.d/90-trackbed.conf",
    "/etc/NetworkManager/system-connections/trackbed-*.nmconnection",
    "/etc/sysctl.d/90-trackbed.conf",
    "/etc/iproute2/rt_tables.d/trackbed.conf",
    *(path for _, path in file.NAMES),
)
"""All paths that a file of ours can have; those that the plan no longer has are deleted."""


@dataclass(frozen=True, slots=True)
class HostFile:
    """A file: absolute path, text that ends with a newline, permissions."""

    path: str
    content: str
    mode: int


def list_files(node: NodePlan, network: Format) -> tuple[HostFile, ...]:
    """Return all files of the node by path, with its network in this format."""
    host_files = [HostFile(path, content, choose_mode(path)) for path, content in FORMATS[network](node).items()]
    wanted = [setting.want for setting in list_settings(node, WITH_FILES)]
    host_files += [HostFile(want.path, want.content, want.mode) for want in wanted if isinstance(want, file.Want)]
    return tuple(sorted(host_files, key=attrgetter("path")))


def build_patterns() -> tuple[str, ...]:
    """Return `OWN` as regular expressions that match a whole path."""
    return tuple(f"^{'[^/]*'.join(re.escape(part) for part in name.split('*'))}$" for name in OWN)
