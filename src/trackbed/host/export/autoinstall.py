"""Autoinstall user-data: Ubuntu's installer leaves the files in the new system, so that its first boot is right.

`late-commands` run when the system lies under /target: one command writes one file, the last one gives the kernel its
arguments inside the target. A command that fails ends the installation, so no host comes up half set.
What only the site knows is left out: identity or ssh, storage. (Ubuntu autoinstall reference, version 1.)
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.export.arguments import find_arguments, render_script
from trackbed.host.export.blocks import render_block, render_scalar
from trackbed.host.export.files import HostFile, list_files
from trackbed.host.formats import Format

TARGET = "/target"
"""Where the installer mounts the new system."""


def render_user_data(node: NodePlan, network: Format) -> str:
    """Render a document for this node; the site adds users and storage."""
    commands = "".join(f"    - {render_block(command, 6)}" for command in render_writes(node, network, TARGET))
    return f"""#cloud-config
# Node {node.name} of Fabric {node.common.fabric}, written by Trackbed.
# Add identity (or ssh with authorized-keys), or nobody can log in, and storage, or the largest disk is taken.
autoinstall:
  version: 1
  user-data:
    hostname: {render_scalar(node.name)}
  late-commands:
{commands}{_render_arguments(node)}"""


def render_writes(node: NodePlan, network: Format, target: str) -> Iterator[str]:
    """Yield for each file a sh(1) command that writes it below `target`."""
    return (_render_write(file, target) for file in list_files(node, network))


def _render_write(file: HostFile, target: str) -> str:
    path = PurePosixPath(target + file.path)
    folder, name = shlex.quote(str(path.parent)), shlex.quote(str(path))
    delimiter = _choose_delimiter(file.content)
    return (
        f"mkdir -p {folder} && cat >{name} <<'{delimiter}' && chmod {file.mode:04o} {name}\n{file.content}{delimiter}\n"
    )


def _choose_delimiter(content: str) -> str:
    """Return a here-document delimiter that is no line of the text."""
    delimiter, lines = "TRACKBED", set(content.splitlines())
    while delimiter in lines:
        delimiter += "_"
    return delimiter


def _render_arguments(node: NodePlan) -> str:
    wanted = find_arguments(node)
    if wanted is None:
        return ""
    chroot = ["curtin", "in-target", f"--target={TARGET}", "--", "sh", "-c"]
    first, *others = (f"{render_scalar(word)}\n" for word in chroot)
    script = render_block(render_script(wanted), 8)
    return f"    - - {first}{''.join(f'      - {word}' for word in others)}      - {script}"
