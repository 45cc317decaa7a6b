from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from trackbed.host.discover.wanted import WANTED
from trackbed.host.machine import Machine
from trackbed.host.runner import Ran
from trackbed.host.snapshot.archive import capture, mask_snapshot, unpack
from trackbed.host.snapshot.recorded import RECORD, open_machine
from trackbed.host.snapshot.snapshot import Snapshot, Wanted
from trackbed.host.snapshot.take import take


class Answers:
    """A runner that knows two programs."""

    def has_program(self, program: str) -> bool:
        """Whether it is one of the two."""
        return program in {"uname", "broken"}

    def run(self, argv: Sequence[str]) -> Ran:
        """One ends well and tells a secret, the other does not."""
        return Ran(0, "Linux\npassword=open-sesame\n") if argv[0] == "uname" else Ran(3, "no such luck\n")


PROGRAMS = Wanted(commands=(("uname", "-s"), ("broken",), ("absent",)))


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
    live = mask_snapshot(take(here, wanted))
    assert live.files, "no /sys here"
    assert_same(take(captured(here, wanted, tmp_path), wanted), live)


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
    assert_same(take(there, wanted), take(machine, wanted))


def test_what_programs_said_is_answered_without_starting_them(tmp_path: Path) -> None:
    there = captured(tree(tmp_path / "host", {"etc/hostname": "a"}, {}), PROGRAMS, tmp_path)
    assert there.run(("broken",)) == Ran(3, "no such luck\n")
    assert take(there, PROGRAMS).get_output("uname", "-s") == "Linux\npassword=***\n"
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
    assert (done.files, done.masked, done.withheld) == (1, ("/proc/cmdline",), ("/etc/shadow",))


def archive_of(tmp_path: Path, *members: tarfile.TarInfo, record: bool = True) -> Path:
    place = tmp_path / "bad.tar.gz"
    with tarfile.open(place, "w:gz") as archive:
        if record:
            text = json.dumps({"outputs": []}).encode()
            entry = tarfile.TarInfo(RECORD)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text))
        for member in members:
            archive.addfile(member)
    return place


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.linkname = kind, target
    return found


HOSTILE = {
    "above": member("../escaped"),
    "absolute": member("/escaped"),
    "device": member("sys/zero", tarfile.CHRTYPE),
    "hard link": member("sys/passwd", tarfile.LNKTYPE, "/etc/passwd"),
}


@pytest.mark.parametrize("bad", HOSTILE.values(), ids=HOSTILE)
def test_members_without_a_place_are_refused(bad: tarfile.TarInfo, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(ValueError, match="no place in the archive"):
        unpack(archive_of(tmp_path, bad), folder)
    assert not list(folder.iterdir())


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "outside").mkdir()
    link = member("sys", tarfile.SYMTYPE, str(tmp_path / "outside"))
    with pytest.raises((ValueError, OSError)):
        unpack(archive_of(tmp_path, link, member("sys/escaped")), folder)
    assert not list((tmp_path / "outside").iterdir())


def test_nothing_outside_is_read_through_a_link(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "outside").write_text("hunter2")
    unpack(archive_of(tmp_path, member("proc/cmdline", tarfile.SYMTYPE, str(tmp_path / "outside"))), folder)
    seen = take(open_machine(folder), Wanted(("/proc/cmdline",)))
    assert not seen.files
    assert "leads out" in seen.unreadable["/proc/cmdline"]


def test_a_folder_outside_is_not_listed_through_a_link(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/hunter2").touch()
    unpack(archive_of(tmp_path, member("sys", tarfile.SYMTYPE, str(tmp_path / "outside"))), folder)
    assert not take(open_machine(folder), Wanted(folders=("/sys",))).folders


def test_an_archive_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`trackbed capture` did not write it"):
        unpack(archive_of(tmp_path, member("etc/hostname"), record=False), tmp_path)
