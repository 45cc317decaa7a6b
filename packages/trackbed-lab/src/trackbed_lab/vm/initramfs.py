"""The initramfs of an emulated server: a cpio archive of busybox, a script and a few kernel modules.

The script mounts this machine's root read-only over 9p, overlays the fetched tools and an empty tmpfs, binds the
persistent folders (PERSISTENT) from the server's disk, and executes systemd. A server cannot change this machine: its
only writable share is its shared folder.
"""

import lzma
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT_MODULES = ("9pnet_virtio", "9p", "overlay", "virtio_blk", "ext4")
"""Modules for mounting the root; their dependencies are added."""

PERSISTENT = ("etc", "boot", "var/lib/trackbed", "var/lib/kubelet", "var/lib/containerd", "var/lib/cni", "opt/cni")
"""Folders of a server that persist across reboots; all others start as copies of this machine's."""

SCRIPT = """#!/bin/sh
fail() { echo "trackbed: the first root failed: $1"; sleep 1; poweroff -f; }
share() { mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,"$3" "$1" "$2" || fail "mounting share $1"; }
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
case $(cat /proc/cmdline) in *trackbed.probe*) echo "trackbed: probed"; sleep 0.2; poweroff -f ;; esac
for module in $(cat /load-order); do insmod "/lib/$module" || fail "loading $module"; done
share hostroot /host cache=loose,ro
share tools /tools cache=loose,ro
share modules /kernel cache=loose,ro
share own /own cache=mmap
mount -t tmpfs -o mode=755 rw /rw
mkdir /rw/upper /rw/work
mount -t ext4 /dev/vda /disk || fail "mounting the disk"
mount -t overlay -o lowerdir=/tools:/host,upperdir=/rw/upper,workdir=/rw/work root /new || fail "laying the root"
for folder in PERSISTENT; do
    mkdir -p "/new/$folder"
    mount --bind "/disk/$folder" "/new/$folder" || fail "binding $folder"
done
mkdir -p "/new/usr/lib/modules/$(uname -r)"
mount --bind /kernel "/new/usr/lib/modules/$(uname -r)"
mount --move /proc /new/proc
mount --move /sys /new/sys
mount --move /dev /new/dev
mount -t tmpfs -o mode=755 run /new/run
mkdir -p /new/run/own
mount --move /own /new/run/own
rm -f /new/.dockerenv /new/run/.containerenv
exec switch_root /new /lib/systemd/systemd </dev/console >/dev/console 2>&1
fail "no process 1"
""".replace("PERSISTENT", " ".join(PERSISTENT))

_FOLDERS = ("bin", "dev", "disk", "host", "kernel", "lib", "new", "own", "proc", "rw", "sys", "tools")
_MAGIC = "070701"
_SIGNED = b"~Module signature appended~\n"
_SIGNATURE_BYTES = 12
_PROGRAM = stat.S_IFREG | 0o755
_FILE = stat.S_IFREG | 0o644
_FOLDER = stat.S_IFDIR | 0o755
_LINK = stat.S_IFLNK | 0o777


class InitramfsError(Exception):
    """The initramfs cannot be built; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    """One file, folder or link of the archive."""

    name: str
    mode: int
    content: bytes = b""


def build_initramfs(busybox: Path, modules: Path) -> bytes:
    """Build the archive for the kernel whose modules and modules.dep are in `modules`.

    Raises:
        InitramfsError: a module has an unknown compression.
        OSError: a file cannot be read.
    """
    dependencies = parse_dependencies((modules / "modules.dep").read_text())
    order = order_modules(dependencies, ROOT_MODULES)
    loaded = {
        parse_module_name(path): strip_signature(decompress_module((modules / path).read_bytes(), path))
        for path in order
    }
    return pack_archive(build_entries(busybox.read_bytes(), loaded))


def build_entries(busybox: bytes, modules: Mapping[str, bytes]) -> list[ArchiveEntry]:
    """Return the entries of the archive; `modules` is in load order."""
    applets = ("sh", "mount", "mkdir", "insmod", "cat", "uname", "switch_root", "sleep", "poweroff", "echo")
    return [
        *(ArchiveEntry(name, _FOLDER) for name in _FOLDERS),
        ArchiveEntry("bin/busybox", _PROGRAM, busybox),
        *(ArchiveEntry(f"bin/{name}", _LINK, b"busybox") for name in applets),
        ArchiveEntry("init", _PROGRAM, SCRIPT.encode()),
        ArchiveEntry("load-order", _FILE, "".join(f"{name}.ko\n" for name in modules).encode()),
        *(ArchiveEntry(f"lib/{name}.ko", _FILE, content) for name, content in modules.items()),
    ]


def pack_archive(entries: Iterable[ArchiveEntry]) -> bytes:
    """Encode entries in cpio's newc format (Linux, Documentation/driver-api/early-userspace/buffer-format.rst)."""
    members = [_pack_member(inode, entry) for inode, entry in enumerate(entries, 1)]
    return b"".join([*members, _pack_member(0, ArchiveEntry("TRAILER!!!", 0))])


def parse_dependencies(index: str) -> dict[str, tuple[str, list[str]]]:
    """Parse modules.dep(5): module name -> its path, and the paths of its dependencies with the first to load last."""
    modules = {}
    for line in index.splitlines():
        path, _, dependencies = line.partition(":")
        modules[parse_module_name(path)] = (path, dependencies.split())
    return modules


def order_modules(modules: Mapping[str, tuple[str, list[str]]], names: Sequence[str]) -> list[str]:
    """Return the paths of the named modules and their dependencies in load order; built-in modules are skipped."""
    order: list[str] = []
    for name in names:
        path, dependencies = modules.get(name, ("", []))
        order += [module for module in [*reversed(dependencies), path] if module and module not in order]
    return order


def parse_module_name(path: str) -> str:
    """Return the module's name: `9pnet_virtio` for `kernel/net/9p/9pnet_virtio.ko.xz`."""
    return path.rpartition("/")[2].partition(".")[0].replace("-", "_")


def decompress_module(content: bytes, path: str) -> bytes:
    """Return a module uncompressed, as busybox's insmod requires. Raises InitramfsError."""
    if path.endswith(".xz"):
        return lzma.decompress(content)
    if path.endswith(".ko"):
        return content
    raise InitramfsError(f"{path} has an unknown compression; modules of Debian's kernels are .ko.xz")


def strip_signature(module: bytes) -> bytes:
    """Remove the signature at a module's end (struct module_signature of include/linux/module_signature.h)."""
    if not module.endswith(_SIGNED):
        return module
    end = len(module) - len(_SIGNED)
    size = int.from_bytes(module[end - 4 : end], "big")
    return module[: end - _SIGNATURE_BYTES - size]


def _pack_member(inode: int, entry: ArchiveEntry) -> bytes:
    name = entry.name.encode() + b"\0"
    links = 2 if entry.mode == _FOLDER else 1
    fields = (inode, entry.mode, 0, 0, links, 0, len(entry.content), 0, 0, 0, 0, len(name), 0)
    head = (_MAGIC + "".join(f"{field:08X}" for field in fields)).encode() + name
    return _pad(head) + _pad(entry.content)


def _pad(content: bytes) -> bytes:
    return content + b"\0" * (-len(content) % 4)
