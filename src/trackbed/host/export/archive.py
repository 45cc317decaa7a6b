"""A tar archive of one host's files: `tar -C / -xf` creates exactly the files that `trackbed apply` writes.

The same plan gives the same bytes: sorted by path, owner root, all times 0, POSIX ustar (IEEE Std 1003.1, pax). Folders
are left out: existing folders keep their permissions, and tar(1) creates the others.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.export.arguments import find_arguments, render_grub_file, render_line
from trackbed.host.export.files import HostFile, list_files
from trackbed.host.formats import Format
from trackbed.host.kinds.bootloader import GRUB_FILE


def build_archive(node: NodePlan, network: Format, vendor: str | None) -> bytes:
    """Return an uncompressed tar archive with GRUB's drop-in for a CPU of this vendor (a key of `arguments.IOMMU`).

    Raises ValueError if the arguments depend on the CPU and `vendor` is None.
    """
    return pack_files((*list_files(node, network), *_build_grub_file(node, vendor)))


def pack_files(files: Iterable[HostFile]) -> bytes:
    """Return an uncompressed tar archive of the files."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for file in sorted(files, key=lambda host_file: host_file.path):
            raw = file.content.encode()
            member = tarfile.TarInfo(file.path.lstrip("/"))
            member.size, member.mode = len(raw), file.mode
            member.uname = member.gname = "root"
            tar.addfile(member, io.BytesIO(raw))
    return stream.getvalue()


def _build_grub_file(node: NodePlan, vendor: str | None) -> tuple[HostFile, ...]:
    wanted = find_arguments(node)
    if wanted is None:
        return ()
    if vendor is None and wanted.iommu:
        raise ValueError(f"node {node.name} wants the IOMMU on, and how that is said depends on its CPU")
    return (HostFile(GRUB_FILE, render_grub_file(render_line(wanted, vendor or "")), 0o644),)
