import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.host.export.fabrics import planned
from trackbed.host.export.archive import build_archive
from trackbed.host.export.arguments import find_arguments, render_grub_file, render_line
from trackbed.host.export.files import list_files
from trackbed.host.kinds.bootloader import GRUB_FILE


def members(raw: bytes) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        return tar.getmembers()


def test_the_same_plan_gives_the_same_bytes() -> None:
    assert build_archive(planned().nodes[1], "netplan", "Arm") == build_archive(planned().nodes[1], "netplan", "Arm")


def test_members_are_sorted_roots_and_without_time() -> None:
    entries = members(build_archive(planned().nodes[1], "networkd", "Arm"))
    assert [member.name for member in entries] == sorted(member.name for member in entries)
    assert {(member.uid, member.gid, member.uname, member.gname, member.mtime, member.type) for member in entries} == {
        (0, 0, "root", "root", 0, tarfile.REGTYPE)
    }


@pytest.mark.needs("tar")
def test_unpacked_it_is_the_files_of_apply(tmp_path: Path) -> None:
    node = planned().nodes[1]
    raw = build_archive(node, "netplan", "GenuineIntel")
    subprocess.run(["tar", "-C", str(tmp_path), "-xpf", "-"], input=raw, check=True, timeout=10)
    left = {f"/{p.relative_to(tmp_path)}": p for p in tmp_path.rglob("*") if p.is_file()}
    wanted = find_arguments(node)
    assert wanted is not None
    assert {path: (p.read_text(), p.stat().st_mode & 0o7777) for path, p in left.items()} == {
        file.path: (file.content, file.mode) for file in list_files(node, "netplan")
    } | {GRUB_FILE: (render_grub_file(render_line(wanted, "GenuineIntel")), 0o644)}


def test_where_the_cpu_decides_it_must_be_named() -> None:
    with pytest.raises(ValueError, match=r"^node gpu-1 wants the IOMMU on, and how that is said depends on its CPU$"):
        build_archive(planned().nodes[1], "netplan", None)


def test_without_kernel_arguments_no_cpu_is_asked_for() -> None:
    names = {member.name for member in members(build_archive(planned(spec="").nodes[1], "netplan", None))}
    assert GRUB_FILE.lstrip("/") not in names
