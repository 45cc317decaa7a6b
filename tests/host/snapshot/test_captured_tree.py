"""A capture that is read in memory reads like the same capture unpacked."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path, PurePosixPath

import pytest

from tests.host import h100
from tests.host.snapshot.test_archive import Answers, archive_of, assert_same, member, tree
from trackbed.cli.capture import build_wanted
from trackbed.host.machine import Machine
from trackbed.host.snapshot import captured_tree
from trackbed.host.snapshot.archive import unpack
from trackbed.host.snapshot.capture import capture
from trackbed.host.snapshot.captured_tree import load_tree, read_tree
from trackbed.host.snapshot.recorded import RECORD, open_machine
from trackbed.host.snapshot.snapshot import Snapshot, Wanted
from trackbed.host.snapshot.take import read_snapshot


def read_both(archive: Path, wanted: Wanted, folder: Path) -> tuple[Snapshot, Snapshot]:
    """Return what is read of an archive in memory, and unpacked."""
    with tarfile.open(archive) as members:
        names = frozenset(PurePosixPath(name).name for name in members.getnames())
    folder.mkdir()
    unpack(archive, folder)
    return read_tree(load_tree(archive, names, frozenset()), wanted), read_snapshot(open_machine(folder), wanted)


def test_a_server_reads_the_same_in_memory_as_unpacked(tmp_path: Path) -> None:
    root = h100.write_host(tmp_path / "host", h100.list_functions(), {"/etc/.hidden.conf": "a", "/etc/a.conf": "b"})
    machine = Machine(root, runner=Answers())
    commands = Wanted(
        ("/etc/*.conf", "/etc/.h*"), commands=(("uname", "-s"), ("uname", "-m"), ("broken",), ("absent",))
    )
    wanted = build_wanted(machine) | commands
    with (tmp_path / "host.tar.gz").open("xb") as stream:
        capture(machine, wanted, stream)
    in_memory, unpacked = read_both(tmp_path / "host.tar.gz", wanted, tmp_path / "unpacked")
    assert len(in_memory.files) > 800
    assert len(in_memory.links) > 100
    assert_same(in_memory, unpacked)
    assert in_memory.unreadable == unpacked.unreadable


LINKS = {
    "to a file": ("a", "etc/hostname"),
    "to a file, by a folder": ("etc/a", "../etc/hostname"),
    "to a folder": ("a", "etc"),
    "to an absolute place": ("a", "/etc"),
    "upwards out of the root": ("a", "../../etc"),
    "to itself": ("a", "a"),
    "to nothing": ("a", "nothing"),
    "below a file": ("a", "etc/hostname/b"),
    "upwards from nothing": ("a", "nothing/../etc"),
}
PLACES = Wanted(
    ("/a", "/a/hostname", "/*", "/*/hostname", "/etc/*", "/etc/a/b"),
    ("/a", "/etc/a", "/*"),
    ("/", "/a", "/etc", "/a/*"),
)


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_a_link_reads_the_same_in_memory_as_unpacked(link: tuple[str, str], tmp_path: Path) -> None:
    archive = tmp_path / "host.tar.gz"
    with archive.open("xb") as stream, tarfile.open(fileobj=stream, mode="w:gz") as members:
        for name, content in {"etc/hostname": b"gpu-0\n", RECORD: b'{"outputs":[]}'}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            members.addfile(entry, io.BytesIO(content))
        members.addfile(member(link[0], tarfile.SYMTYPE, link[1]))
    in_memory, unpacked = read_both(archive, PLACES, tmp_path / "unpacked")
    assert in_memory.files == {path: raw for path, raw in unpacked.files.items() if path != f"/{RECORD}"}
    assert in_memory.links == unpacked.links
    assert in_memory.unreadable.keys() == unpacked.unreadable.keys()
    names = {path: tuple(sorted({*names} - {RECORD})) for path, names in unpacked.folders.items()}
    assert in_memory.folders == names, "the record is no file of the machine"


def test_only_what_is_needed_is_held_in_memory(tmp_path: Path) -> None:
    machine = tree(tmp_path / "host", {"etc/hostname": "a", "etc/machine-id": "b", "run/x/y": "c"}, {})
    with (tmp_path / "host.tar.gz").open("xb") as stream:
        capture(machine, Wanted(("/etc/hostname", "/etc/machine-id", "/run/x/*")), stream)
    captured = load_tree(tmp_path / "host.tar.gz", frozenset({"hostname"}), frozenset({"run/x"}))
    contents = {path: content for path, content in captured.members.items() if content is not None}
    assert contents == {"etc/hostname": b"a", "run/x/y": b"c"}


def test_more_than_a_machine_can_have_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(captured_tree, "MAX_BYTES", 1000)
    machine = tree(tmp_path / "host", {"etc/hostname": "a" * 1001}, {})
    with (tmp_path / "host.tar.gz").open("xb") as stream:
        capture(machine, Wanted(("/etc/hostname",)), stream)
    with pytest.raises(ValueError, match="what is needed of it has more than"):
        load_tree(tmp_path / "host.tar.gz", frozenset({"hostname"}), frozenset())
    assert load_tree(tmp_path / "host.tar.gz", frozenset(), frozenset()).members == {}


@pytest.mark.parametrize("text", ["", "[]", '{"outputs":1}', "\xff", "[" * 100_000], ids=range(5))
def test_a_record_that_cannot_be_parsed_is_an_error_of_the_archive(text: str, tmp_path: Path) -> None:
    raw = text.encode("latin-1")
    entry = tarfile.TarInfo(RECORD)
    entry.size = len(raw)
    with tarfile.open(tmp_path / "host.tar.gz", "w:gz") as archive:
        archive.addfile(entry, io.BytesIO(raw))
    with pytest.raises(ValueError, match=rf"its {RECORD} cannot be read"):
        load_tree(tmp_path / "host.tar.gz", frozenset(), frozenset())


def test_a_record_that_is_a_link_is_an_error_of_the_archive(tmp_path: Path) -> None:
    archive = archive_of(tmp_path, member(RECORD, tarfile.SYMTYPE, "/etc/passwd"), record=False)
    with pytest.raises(ValueError, match=rf"its {RECORD} cannot be read"):
        load_tree(archive, frozenset(), frozenset())


def test_headers_of_one_archive_are_not_mistaken_for_those_of_another(tmp_path: Path) -> None:
    sizes = []
    for number, text in enumerate(("a", "a much longer name", "a")):
        machine = tree(tmp_path / f"host{number}", {"etc/hostname": text}, {})
        with (tmp_path / f"{number}.tar.gz").open("xb") as stream:
            capture(machine, Wanted(("/etc/hostname",)), stream)
        captured = load_tree(tmp_path / f"{number}.tar.gz", frozenset({"hostname"}), frozenset())
        sizes.append(captured.members["etc/hostname"])
    assert sizes == [b"a", b"a much longer name", b"a"]
