"""All files of one host with their permissions, for any tool that writes them: network configuration and steps' files.

They have the bytes that `trackbed apply` writes. The condition of a file (`needs`, for example an installed containerd)
is ignored, because the host may not be installed yet, and a file without its program has no effect.
"""

import re
from dataclasses import dataclass
from operator import attrgetter

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.formats import NETWORK_FILES, Format, get_file_mode
from trackbed.host.kinds import file
from trackbed.host.render import FORMATS
from trackbed.host.steps import WITH_FILES, iter_settings

OWNED_PATHS = (
    *(f"{folder}/{pattern}" for folder, pattern in NETWORK_FILES),
    *(path for _, path in file.NAMES),
)
"""Path patterns of all files that Trackbed owns; owned files that are no longer planned are deleted."""


@dataclass(frozen=True, slots=True)
class HostFile:
    """A file of a host: absolute path, text that ends with a newline, and permissions."""

    path: str
    content: str
    mode: int


def list_files(node: NodePlan, network: Format) -> tuple[HostFile, ...]:
    """Return all files of a node in order of path, with its network configuration in the format `network`."""
    host_files = [HostFile(path, content, get_file_mode(path)) for path, content in FORMATS[network](node).items()]
    wanted = [setting.want for setting in iter_settings(node, WITH_FILES)]
    host_files += [HostFile(want.path, want.content, want.mode) for want in wanted if isinstance(want, file.Want)]
    return tuple(sorted(host_files, key=attrgetter("path")))


def build_patterns() -> tuple[str, ...]:
    """Return `OWNED_PATHS` as regular expressions, each of which matches a whole path."""
    return tuple(f"^{'[^/]*'.join(re.escape(part) for part in name.split('*'))}$" for name in OWNED_PATHS)
