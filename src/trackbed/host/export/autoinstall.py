"""Autoinstall user-data: Ubuntu's installer writes the files to the new system, before its first boot.

`late-commands` run when the new system is mounted at /target: each writes one file, and the last passes the kernel
arguments to the boot loader of the target. A command that fails ends the installation, so no host is half configured.
The site adds identity or ssh, and storage. (Ubuntu autoinstall reference, version 1.)
"""

import json
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.export.arguments import find_arguments, render_script
from trackbed.host.export.blocks import render_block
from trackbed.host.export.files import HostFile, list_files
from trackbed.host.formats import Format

TARGET = "/target"
"""Where the installer mounts the new system."""


def render_user_data(node: NodePlan, network: Format) -> str:
    """Render the user-data document of a node; the site adds users and storage."""
    commands = "".join(f"    - {render_block(command, 6)}" for command in iter_write_commands(node, network, TARGET))
    return f"""#cloud-config
# Node {node.name} of Fabric {node.common.fabric}, written by Trackbed.
# Add identity (or ssh with authorized-keys), or nobody can log in, and storage, or the largest disk is taken.
autoinstall:
  version: 1
  user-data:
    hostname: {json.dumps(node.name)}
  late-commands:
{commands}{_render_arguments_command(node)}"""


def iter_write_commands(node: NodePlan, network: Format, target: str) -> Iterator[str]:
    """Yield an sh(1) command for each file, which writes the file below `target`."""
    return (_render_write_command(file, target) for file in list_files(node, network))


def _render_write_command(file: HostFile, target: str) -> str:
    path = PurePosixPath(target + file.path)
    folder, name = shlex.quote(str(path.parent)), shlex.quote(str(path))
    delimiter = _choose_delimiter(file.content)
    return (
        f"mkdir -p {folder} && cat >{name} <<'{delimiter}' && chmod {file.mode:04o} {name}\n{file.content}{delimiter}\n"
    )


def _choose_delimiter(content: str) -> str:
    """Return a here-document delimiter that is not a line of the text."""
    delimiter, lines = "TRACKBED", set(content.splitlines())
    while delimiter in lines:
        delimiter += "_"
    return delimiter


def _render_arguments_command(node: NodePlan) -> str:
    wanted = find_arguments(node)
    if wanted is None:
        return ""
    chroot = ["curtin", "in-target", f"--target={TARGET}", "--", "sh", "-c"]
    first, *others = (f"{json.dumps(word)}\n" for word in chroot)
    script = render_block(render_script(wanted), 8)
    return f"    - - {first}{''.join(f'      - {word}' for word in others)}      - {script}"
