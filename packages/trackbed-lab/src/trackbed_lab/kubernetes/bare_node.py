"""A node whose root has no Python: what this machine's root has of it is hidden before containerd and kubelet start.

A server shares this machine's root, so a unit hides the files at each boot: folders of interpreters below an empty
tmpfs, programs in common folders by whiteouts in an overlay (Documentation/filesystems/overlayfs.rst). The lab's agent
is written in Python. It alone still sees the files, because it takes the mounts away in a mount namespace of its own;
lazily, because the shell that does it is one of the programs below them.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from trackbed_lab.vm import furnish
from trackbed_lab.vm.furnish import ServerFile

_UNIT = "lab-no-python.service"
_SCRIPT = "etc/trackbed-lab/hide-python"
_COMMON_FOLDERS = (Path("/usr/bin"), Path("/usr/local/bin"))
_LIBRARY_FOLDERS = (Path("/usr/lib"), Path("/usr/local/lib"))
_PATTERN = "*python*"


def build_find_command() -> list[str]:
    """Return a command that lists every Python that a node's process 1 sees where this machine has one."""
    programs = " ".join(map(str, (*_COMMON_FOLDERS, *_list_interpreter_folders())))
    libraries = " ".join(map(str, _list_library_folders()))
    script = (
        f"command -v python3 python; find {programs} -maxdepth 2 -name '{_PATTERN}' ! -type d; "
        f"[ -z '{libraries}' ] || find {libraries} -mindepth 1 -maxdepth 1"
    )
    return ["nsenter", "--target=1", "--mount", "--", "sh", "-c", script]


def render_files() -> dict[str, ServerFile]:
    """Return the files that hide Python at each boot of a node, by path below its root."""
    texts = {
        f"etc/systemd/system/{_UNIT}": _HIDE_UNIT.format(agent=furnish.UNIT, script=_SCRIPT),
        f"etc/systemd/system/{furnish.UNIT}.d/no-python.conf": _AGENT_DROP_IN.format(
            unit=_UNIT, folders=" ".join(map(str, _list_hidden_folders())), python=sys.executable
        ),
        _SCRIPT: "".join(f"{line}\n" for line in _iter_hide_commands()),
    }
    return {path: ServerFile(text) for path, text in texts.items()}


def _list_hidden_folders() -> list[Path]:
    """Return the folders over which something is mounted."""
    return [*_list_library_folders(), *_list_interpreter_folders(), *(folder for folder, _ in _iter_programs())]


def _list_library_folders() -> list[Path]:
    return [path for folder in _LIBRARY_FOLDERS for path in sorted(folder.glob("python*")) if path.is_dir()]


def _list_interpreter_folders() -> list[Path]:
    """Return the folders of the running interpreter and of its virtual environment, outside /usr."""
    folders = {Path(sys.prefix), Path(sys.base_prefix)}
    return sorted(folder for folder in folders if Path("/usr") not in (folder, *folder.parents))


def _iter_programs() -> Iterator[tuple[Path, list[str]]]:
    """Yield the common folders with the names of the Python programs in them."""
    for folder in _COMMON_FOLDERS:
        if names := sorted(path.name for path in folder.glob(_PATTERN)):
            yield folder, names


def _iter_hide_commands() -> Iterator[str]:
    yield "#!/bin/sh -e"
    for folder in (*_list_library_folders(), *_list_interpreter_folders()):
        yield f"mount -t tmpfs -o ro,size=4k hidden {folder}"
    for number, (folder, names) in enumerate(_iter_programs()):
        layer = f"/run/lab-hidden/{number}"
        yield f"mkdir -p {layer}"
        yield from (f"mknod {layer}/{name} c 0 0" for name in names)
        yield f"mount -t overlay -o lowerdir={layer}:{folder} hidden {folder}"


_HIDE_UNIT = """[Unit]
Description=Hides every Python of the root
DefaultDependencies=no
Before={agent} containerd.service kubelet.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -e /{script}
"""

_AGENT_DROP_IN = """[Unit]
Requires={unit}
After={unit}

[Service]
PrivateMounts=yes
ExecStart=
ExecStart=/bin/sh -ec 'umount -l {folders}; exec {python} -I -u /run/own/agent.py'
"""
