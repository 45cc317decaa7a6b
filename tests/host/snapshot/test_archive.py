from __future__ import annotations

import gzip
import io
import itertools
import json
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from trackbed.host.discover.wanted import WANTED
from trackbed.host.machine import Machine
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.archive import unpack
from trackbed.host.snapshot.capture import capture, mask_snapshot
from trackbed.host.snapshot.recorded import RECORD, open_machine
from trackbed.host.snapshot.snapshot import Snapshot, Wanted
from trackbed.host.snapshot.take import read_snapshot


class Answers:
    """A runner that knows two programs."""

    def has_program(self, program: str) -> bool:
        """Whether it is one of the two."""
        return program in {"uname", "broken"}

    def run(self, argv: Sequence[str]) -> ProgramResult:
        """One ends well and tells a secret, the other does not."""
        return (
            ProgramResult(0, "Linux\npassword=open-sesame\n")
            if argv[0] == "uname"
            else ProgramResult(3, "no such luck\n")
        )


PROGRAMS = Wanted(commands=(("uname", "-s"), ("broken",), ("absent",)))


EVERYTHING = PROGRAMS | Wanted(files=("/etc/hostname", "/etc/private"))


def captured(machine: Machine, wanted: Wanted, tmp_path: Path) -> Machine:
    archive = tmp_path / "host.tar.gz"
    with archive.open("xb") as stream:
        capture(machine, wanted, stream)
    folder = tmp_path / "unpacked"
    folder.mkdir()
    unpack(archive, folder)
    return open_machine(folder)


def assert_same(unpacked: Snapshot, live: Snapshot) -> None:
    assert unpacked.files == live.files
    assert unpacked.links == live.links
    assert unpacked.folders == live.folders
    assert unpacked.outputs == live.outputs
    assert unpacked.unreadable.keys() == live.unreadable.keys()


def test_this_machine_reads_the_same_from_its_archive(tmp_path: Path) -> None:
    wanted = WANTED | Wanted(folders=("/sys/class/net", "/sys/class/net/lo", "/sys/bus/pci/devices"))
    here = Machine(Path("/"))
    live = mask_snapshot(read_snapshot(here, wanted))
    assert live.files, "no /sys here"
    assert_same(read_snapshot(captured(here, wanted, tmp_path), wanted), live)


def tree(root: Path, files: Mapping[str, str], links: Mapping[str, str]) -> Machine:
    for path, text in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    for path, target in links.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
    return Machine(root, runner=Answers())


PORT = "sys/devices/pci0000:17/0000:17:01.0/0000:18:00.0"


def test_what_was_unreadable_is_unreadable_in_the_archive(tmp_path: Path) -> None:
    host = tmp_path / "host"
    (host / "sys/devices").mkdir(parents=True)
    for name in ("link", "folder", "file"):
        (host / "sys" / name).symlink_to(name)  # reading it fails with ELOOP
    wanted = Wanted(files=("/sys/file", "/sys/folder/*.conf"), links=("/sys/link",), folders=("/sys/devices",))
    live = read_snapshot(Machine(host), wanted)
    assert set(live.unreadable) == {"/sys/link", "/sys/folder", "/sys/file"}
    assert_same(read_snapshot(captured(Machine(host), wanted, tmp_path), wanted), live)


def test_what_lies_behind_an_absolute_link_is_read_in_the_archive_too(tmp_path: Path) -> None:
    (tmp_path / "host/run/cdi").mkdir(parents=True)
    (tmp_path / "host/var").mkdir()
    (tmp_path / "host/var/run").symlink_to("/run")  # as on Debian
    (tmp_path / "host/run/cdi/nvidia.yaml").write_text("kind: x")
    wanted = Wanted(files=("/var/run/cdi/*",), folders=("/var/run/cdi",))
    assert_same(read_snapshot(captured(Rooted(tmp_path / "host"), wanted, tmp_path), wanted), SPECS)


SPECS = Snapshot({"/var/run/cdi/nvidia.yaml": b"kind: x"}, folders={"/var/run/cdi": ("nvidia.yaml",)})


class Rooted(Machine):
    """A machine that reads absolute links as one whose root is `/` does."""

    def locate_inside(self, path: str) -> Path:
        """Follow /var/run."""
        return super().locate_inside(path.replace("/var/run", "/run"))


def test_what_is_below_an_unreadable_folder_is_left_out_and_named(tmp_path: Path) -> None:
    (tmp_path / "host/etc").mkdir(parents=True)
    (tmp_path / "host/etc/file").write_text("text")
    machine = Unlisted(tmp_path / "host")
    wanted = Wanted(files=("/etc/file",), folders=("/etc",))
    with (tmp_path / "host.tar.gz").open("xb") as stream:
        result = capture(machine, wanted, stream)
    assert (result.files, result.withheld) == (0, {"/etc/file": "a folder above it could not be listed"})
    (tmp_path / "unpacked").mkdir()
    unpack(tmp_path / "host.tar.gz", tmp_path / "unpacked")
    assert set(read_snapshot(open_machine(tmp_path / "unpacked"), wanted).unreadable) >= {"/etc"}


class Unlisted(Machine):
    """A machine that does not list /etc."""

    def locate_inside(self, path: str) -> Path:
        """Refuse the folder, not what is below it."""
        if path == "/etc":
            raise PermissionError(path)
        return super().locate_inside(path)


def test_links_of_sysfs_stay_links(tmp_path: Path) -> None:
    machine = tree(
        tmp_path / "host",
        {f"{PORT}/net/rail0/mtu": "9000\n", f"{PORT}/numa_node": "0\n"},
        {
            "sys/class/net/rail0": f"../../../{PORT}/net/rail0",
            f"{PORT}/net/rail0/device": "../../../0000:18:00.0",
        },
    )
    wanted = Wanted(("/sys/class/net/*/mtu", "/sys/class/net/*/device/numa_node"), ("/sys/class/net/*/device",))
    there = captured(machine, wanted, tmp_path)
    assert (there.root / "sys/class/net/rail0").is_symlink()
    assert (there.root / PORT / "net/rail0/mtu").read_text() == "9000\n"
    assert_same(read_snapshot(there, wanted), read_snapshot(machine, wanted))


def test_what_programs_said_is_answered_without_starting_them(tmp_path: Path) -> None:
    there = captured(tree(tmp_path / "host", {"etc/hostname": "a"}, {}), PROGRAMS, tmp_path)
    assert there.run(("broken",)) == ProgramResult(3, "no such luck\n")
    assert read_snapshot(there, PROGRAMS).get_output("uname", "-s") == "Linux\npassword=***\n"
    assert not there.has_program("absent")


SECRETS = {
    "kernel arguments": ("proc/cmdline", "root=/dev/sda rd.iscsi.password=hunter2 quiet", "hunter2"),
    "user and password for iSCSI": ("proc/cmdline", "netroot=iscsi:me:hunter2@10.0.0.1::3260::iqn", "hunter2"),
    "a proxy": ("etc/environment", "https_proxy=http://me:hunter2@proxy:3128", "hunter2"),
    "a setting in quotes": ("etc/some.conf", 'api_key: "hunter2 and more"', "hunter2"),
    "a private key": (
        "etc/some.conf",
        "-----BEGIN RSA PRIVATE KEY-----\nhunter2\n-----END RSA PRIVATE KEY-----",
        "hunter2",
    ),
    "half a private key": ("etc/some.conf", "-----BEGIN PRIVATE KEY-----\nhunter2\n", "hunter2"),
    "a forbidden file": ("etc/shadow", "root:hunter2:1:::", "hunter2"),
    "a forbidden folder": ("etc/kubernetes/pki/ca.key", "hunter2", "hunter2"),
}


@pytest.mark.parametrize(("path", "text", "secret"), SECRETS.values(), ids=SECRETS)
def test_secrets_do_not_leave_the_machine(path: str, text: str, secret: str, tmp_path: Path) -> None:
    machine = tree(tmp_path / "host", {path: text, "etc/hostname": "a"}, {})
    there = captured(machine, Wanted((f"/{path}", "/etc/hostname")), tmp_path)
    everything = b"".join(place.read_bytes() for place in there.root.rglob("*") if place.is_file())
    assert secret.encode() not in everything
    assert (there.root / "etc/hostname").read_text() == "a"


def test_what_was_blanked_and_left_out_is_told(tmp_path: Path) -> None:
    machine = tree(tmp_path, {"proc/cmdline": "token=hunter2", "etc/shadow": "root:x"}, {})
    done = capture(machine, Wanted(("/proc/cmdline", "/etc/shadow")), io.BytesIO())
    assert (done.files, done.masked, done.withheld) == (
        1,
        ("/proc/cmdline",),
        {"/etc/shadow": "it never leaves a machine"},
    )


def archive_of(tmp_path: Path, *members: tarfile.TarInfo, record: bool = True) -> Path:
    place = tmp_path / "bad.tar.gz"
    with tarfile.open(place, "w:gz", compresslevel=1) as archive:
        if record:
            text = json.dumps({"outputs": []}).encode()
            entry = tarfile.TarInfo(RECORD)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text))
        for member in members:
            archive.addfile(member)
    return place


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.type, header.linkname = kind, target
    return header


HOSTILE = {
    "above": member("../escaped"),
    "absolute": member("/escaped"),
    "device": member("sys/zero", tarfile.CHRTYPE),
    "hard link": member("sys/passwd", tarfile.LNKTYPE, "/etc/passwd"),
    "link to nowhere": member("sys/link", tarfile.SYMTYPE, ""),
    "link in place of the root": member(".", tarfile.SYMTYPE, "/etc"),
    "file in place of the root": member("."),
}


@pytest.mark.parametrize("bad", HOSTILE.values(), ids=HOSTILE)
def test_members_without_a_place_are_refused(bad: tarfile.TarInfo, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(ValueError, match="no place in the archive"):
        unpack(archive_of(tmp_path, bad), folder)
    assert not list(folder.iterdir())


OUTSIDE = "victim"
PIECES: dict[str, Callable[[Path], tarfile.TarInfo]] = {
    "a link to an absolute place": lambda out: member("a", tarfile.SYMTYPE, str(out)),
    "a link upwards": lambda _: member("a", tarfile.SYMTYPE, f"../{OUTSIDE}"),
    "a link to the root": lambda _: member("a", tarfile.SYMTYPE, "/"),
    "a link to a link": lambda _: member("b", tarfile.SYMTYPE, "a"),
    "a folder of the name": lambda _: member("a", tarfile.DIRTYPE),
    "a file of the name": lambda _: member("a"),
    "a file below": lambda _: member("a/x"),
    "a file below, by a dot": lambda _: member("./a/./y"),
    "a file far below": lambda _: member("a/made/by/x"),
    "a folder below": lambda _: member("a/made", tarfile.DIRTYPE),
    "a link below": lambda out: member("a/made/by/z", tarfile.SYMTYPE, str(out)),
    "a file below the link to a link": lambda _: member("b/x"),
}


@pytest.mark.parametrize("length", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
def test_no_order_of_links_and_what_is_below_them_writes_outside(length: int, tmp_path: Path) -> None:
    outside = tmp_path / OUTSIDE
    outside.mkdir()
    (outside / "kept").write_text("as it was")
    refused = 0
    for pieces in itertools.permutations(PIECES, length):
        folder = tmp_path / "folder"
        folder.mkdir()
        try:
            unpack(archive_of(tmp_path, *(PIECES[piece](outside) for piece in pieces)), folder)
        except (ValueError, OSError):
            refused += 1
        shutil.rmtree(folder)
        assert [(path.name, path.read_text()) for path in outside.rglob("*")] == [("kept", "as it was")], pieces
    assert (refused > 0) is (length > 1)


def test_what_is_refused_writes_nothing_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for bad in (
        [member("a", tarfile.SYMTYPE, ".."), member("a/x")],
        [member("a/x"), member("a", tarfile.SYMTYPE, "..")],
        [member("a"), member("a")],
    ):
        with pytest.raises(ValueError, match=r"twice|is no folder"):
            unpack(archive_of(tmp_path, *bad), folder)
        assert not list(folder.iterdir())


def block(name: str, kind: bytes, size: int) -> bytes:
    header = member(name, kind)
    header.size = size
    return header.tobuf(tarfile.GNU_FORMAT)


def pax_record(text: str) -> str:
    """A record of an extended header: its length in decimal, itself counted."""
    length = len(text) + 4
    return f"{length} {text}\n" if len(f"{length} {text}\n") == length else f"{length - 1} {text}\n"


SPARSE = "".join(map(pax_record, ("GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.name=a"))).encode()
MIB_16 = 16 << 20
BELOW_ZERO = pax_record("size=-4096").encode()
NEGATIVE = block("x", tarfile.XHDTYPE, len(BELOW_ZERO)) + BELOW_ZERO.ljust(512, b"\0") + block("a", tarfile.REGTYPE, 0)
BOMBS = {
    "an extended header of 3 GiB": [(block("x", tarfile.XHDTYPE, 3 << 30), 1), (bytes(MIB_16), 3 << 6)],
    "a global header of 3 GiB": [(block("x", tarfile.XGLTYPE, 3 << 30), 1), (bytes(MIB_16), 3 << 6)],
    "a name of 1 GiB": [(block("x", tarfile.GNUTYPE_LONGNAME, 1 << 30), 1), (b"a" * MIB_16, 1 << 6)],
    "a map of a sparse file, read with its header": [
        (block("x", tarfile.XHDTYPE, len(SPARSE)) + SPARSE.ljust(512, b"\0"), 1),
        (block("a", tarfile.REGTYPE, 1 << 30) + b"99999999\n".ljust(512, b"0"), 1),
        (b"1\n" * (MIB_16 >> 1), 1 << 6),
    ],
    "a million folders": [(block("a", tarfile.DIRTYPE, 0) * 1000, 1000)],
    "4 GiB of data": [(block("a", tarfile.REGTYPE, 4 << 30), 1), (bytes(MIB_16), 4 << 6)],
    "a record of 1 GiB": [(block(RECORD, tarfile.REGTYPE, 1 << 30), 1), (b"[" * MIB_16, 1 << 6)],
    "a size below zero in front of 1 GiB": [(NEGATIVE, 1), (bytes(MIB_16), 1 << 6)],
    "a name with a size below zero": [(block("x", tarfile.GNUTYPE_LONGNAME, -512), 1), (bytes(MIB_16), 1 << 6)],
}
"""Each a list of bytes and how often they come; a gzip file is made of any number of members (RFC 1952, 2.2)."""
UNPACK = """
import resource, sys
from pathlib import Path
from trackbed.cli.inventories import read_inventories
resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20))
read_inventories(Path(sys.argv[1]))
"""
LOAD = """
import resource, sys
from pathlib import Path
from trackbed.doctor.captured import ForeignCaptureError, excerpt_capture
resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20))
try:
    excerpt_capture(Path(sys.argv[1]), {})
except ForeignCaptureError as error:
    print(error, file=sys.stderr)
    sys.exit(2)
"""
READERS = {"unpacked": UNPACK, "in memory": LOAD}


@pytest.mark.needs("processes")
@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_a_bomb_is_refused_in_half_a_gibibyte(bomb: list[tuple[bytes, int]], reader: str, tmp_path: Path) -> None:
    with (tmp_path / "bomb.tar.gz").open("wb") as stream:
        for content, count in bomb:
            packed = gzip.compress(content, compresslevel=1)
            for _ in range(count):
                stream.write(packed)
    argv = [sys.executable, "-c", reader, str(tmp_path / "bomb.tar.gz")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert re.search("larger than those|unpacks to more than|no place in|has more than 64 MiB", done.stderr)


def test_an_archive_without_compression_that_is_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    with gzip.open(archive_of(tmp_path, member("etc/hostname"))) as stream:
        whole = stream.read()
    for length in range(512, 5 * 512, 100):  # the record takes two blocks, the file one, the end the fourth
        (tmp_path / "cut.tar").write_bytes(whole[: min(length, 4 * 512 - 1)])
        with pytest.raises(EOFError, match="it was cut off, so copy it again"):
            unpack(tmp_path / "cut.tar", tmp_path)


def test_an_archive_of_several_gzip_members_and_padding_is_read_to_its_end(tmp_path: Path) -> None:
    with gzip.open(archive_of(tmp_path, member("etc/hostname"))) as stream:
        whole = stream.read()
    parts = [gzip.compress(whole[:700]), gzip.compress(b""), gzip.compress(whole[700:]), bytes(1000)]
    (tmp_path / "parts.tar.gz").write_bytes(b"".join(parts))
    (tmp_path / "folder").mkdir()
    unpack(tmp_path / "parts.tar.gz", tmp_path / "folder")
    assert sorted(path.name for path in (tmp_path / "folder").iterdir()) == ["etc", RECORD]


@pytest.mark.needs("processes")
@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize("cut", [100, 200, 300])
def test_an_archive_that_is_cut_off_is_refused(cut: int, reader: str, tmp_path: Path) -> None:
    place = archive_of(tmp_path, member("etc/hostname"))
    place.write_bytes(place.read_bytes()[:-cut])
    argv = [sys.executable, "-c", reader, str(place)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr


def test_nothing_outside_is_read_through_a_link(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "outside").write_text("hunter2")
    unpack(archive_of(tmp_path, member("proc/cmdline", tarfile.SYMTYPE, str(tmp_path / "outside"))), folder)
    snapshot = read_snapshot(open_machine(folder), Wanted(("/proc/cmdline",)))
    assert not snapshot.files
    assert "leads out" in snapshot.unreadable["/proc/cmdline"]


def test_a_folder_outside_is_not_listed_through_a_link(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/hunter2").touch()
    unpack(archive_of(tmp_path, member("sys", tarfile.SYMTYPE, str(tmp_path / "outside"))), folder)
    assert not read_snapshot(open_machine(folder), Wanted(folders=("/sys",))).folders


@pytest.mark.needs("processes")
def test_a_folder_from_which_something_was_removed_is_packed_again_by_tar(tmp_path: Path) -> None:
    there = captured(tree(tmp_path / "host", {"etc/hostname": "a", "etc/private": "b"}, {}), EVERYTHING, tmp_path)
    (there.root / "etc/private").unlink()
    subprocess.run(["tar", "czf", str(tmp_path / "again.tar.gz"), "-C", str(there.root), "."], check=True, timeout=30)
    (tmp_path / "again").mkdir()
    unpack(tmp_path / "again.tar.gz", tmp_path / "again")
    snapshot = read_snapshot(open_machine(tmp_path / "again"), EVERYTHING)
    assert (snapshot.files, snapshot.get_output("uname", "-s")) == ({"/etc/hostname": b"a"}, "Linux\npassword=***\n")


def test_an_archive_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`trackbed capture` did not write it"):
        unpack(archive_of(tmp_path, member("etc/hostname"), record=False), tmp_path)
