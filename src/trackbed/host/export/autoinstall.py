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
from trackbed.host.export.arguments import arguments, script
from trackbed.host.export.blocks import block, scalar
from trackbed.host.export.files import HostFile, files
from trackbed.host.formats import Format

TARGET = "/target"
"""Where the installer mounts the new system."""


def user_data(node: NodePlan, network: Format) -> str:
    """A document for this node, complete but for whom the site lets in, and where it installs to."""
    commands = "".join(f"    - {block(command, 6)}" for command in writes(node, network, TARGET))
    return f"""#cloud-config
# Node {node.name} of Fabric {node.common.fabric}, written by Trackbed.
# Add identity (or ssh with authorized-keys), or nobody can log in, and storage, or the largest disk is taken.
autoinstall:
  version: 1
  user-data:
    hostname: {scalar(node.name)}
  late-commands:
{commands}{_arguments(node)}"""


def writes(node: NodePlan, network: Format, target: str) -> Iterator[str]:
    """One program for sh(1) for each file, which it writes below `target`."""
    return (_write(file, target) for file in files(node, network))


def _write(file: HostFile, target: str) -> str:
    path = PurePosixPath(target + file.path)
    folder, name = shlex.quote(str(path.parent)), shlex.quote(str(path))
    mark = _mark(file.content)
    return f"mkdir -p {folder} && cat >{name} <<'{mark}' && chmod {file.mode:04o} {name}\n{file.content}{mark}\n"


def _mark(content: str) -> str:
    """A word that ends the text and is no line of it."""
    mark, lines = "TRACKBED", set(content.splitlines())
    while mark in lines:
        mark += "_"
    return mark


def _arguments(node: NodePlan) -> str:
    wanted = arguments(node)
    if wanted is None:
        return ""
    chroot = ["curtin", "in-target", f"--target={TARGET}", "--", "sh", "-c"]
    first, *rest = (f"{scalar(word)}\n" for word in chroot)
    return f"    - - {first}{''.join(f'      - {word}' for word in rest)}      - {block(script(wanted), 8)}"
