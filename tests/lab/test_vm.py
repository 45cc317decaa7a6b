"""Emulated servers: how they are put together, and that one boots, has VFs, reboots and says why it crashed."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from trackbed_lab.cli import command as lab_command
from trackbed_lab.cli.vm import command
from trackbed_lab.kubernetes import control_plane
from trackbed_lab.vm import agent, apt, channel, disk, grub, initramfs, keeper, lab, machine, parts, switch
from trackbed_lab.vm.forwarding import Segment

BOOT = machine.BootSettings(
    ["qemu"], "/parts/vmlinuz", "/parts/initramfs", {"hostroot": "/", "own": "/lab/node-1/own"}, 4321
)
SHAPE = machine.LabShape(servers=2, rails=8)


def values(option: str, argv: list[str]) -> list[str]:
    return [after for before, after in pairwise(argv) if before == option]


def test_a_server_has_a_nic_behind_a_root_port_for_each_rail_half_on_each_numa_node() -> None:
    devices = values("-device", machine.build_arguments(SHAPE, 1, BOOT, ""))
    ports = [device for device in devices if device.startswith("pcie-root-port")]
    assert [device.rpartition("bus=")[2] for device in ports] == ["px0"] * 4 + ["px1"] * 4
    assert "igb,bus=rp5,netdev=n5,romfile=,mac=02:54:42:01:05:00" in devices
    assert [device for device in devices if "numa_node=1" in device] == [
        "pxb-pcie,id=px1,bus_nr=128,numa_node=1,bus=pcie.0"
    ]


def test_a_nic_is_joined_to_the_switch_by_a_pair_of_sockets() -> None:
    nets = values("-netdev", machine.build_arguments(SHAPE, 1, BOOT, ""))
    ends = "local.type=unix,local.path=net/1-3.vm,remote.type=unix,remote.path=net/1-3.sw"
    assert f"dgram,id=n3,{ends}" in nets
    assert "user,id=u,restrict=on,hostfwd=tcp:127.0.0.1:4321-:7522" in nets


def test_only_a_servers_own_folder_can_be_written_to() -> None:
    shares = values("-fsdev", machine.build_arguments(SHAPE, 1, BOOT, ""))
    assert {share.split(",")[1]: "readonly=on" in share for share in shares} == {"id=hostroot": True, "id=own": False}


def test_kernel_arguments_of_the_boot_loader_follow_those_of_the_lab() -> None:
    argv = machine.build_arguments(SHAPE, 0, BOOT, "ro iommu=pt")
    assert values("-append", argv) == [" ".join([*machine.ALWAYS, "tsc=unstable", "ro iommu=pt"])]


def test_a_server_is_told_the_rate_of_its_clock() -> None:
    [arguments] = values("-append", machine.build_arguments(SHAPE, 0, replace(BOOT, tsc_khz=2445426), ""))
    assert arguments.endswith(" tsc=reliable tsc_early_khz=2445426")


@pytest.mark.parametrize(
    ("kind", "board", "processor"),
    [("kvm", "q35,kernel-irqchip=split", "host"), ("tcg", "q35,kernel-irqchip=off", "Nehalem-v1")],
    ids=["kvm", "tcg"],
)
def test_the_interrupt_controller_fits_the_accelerator(kind: str, board: str, processor: str) -> None:
    argv = machine.build_arguments(machine.LabShape(accelerator=kind), 0, BOOT, "")
    assert (values("-M", argv), values("-cpu", argv)) == ([board], [processor])


def test_memory_and_processors_are_shared_out_whole() -> None:
    argv = machine.build_arguments(machine.LabShape(memory=1025, cpus=3), 0, BOOT, "")
    assert [value.rpartition("size=")[2] for value in values("-object", argv)] == ["512M", "513M"]
    assert [value.split(",")[2] for value in values("-numa", argv)] == ["cpus=0-0", "cpus=1-2"]


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (machine.LabShape(rails=9), ["9 rails: 1 to 8 can be had"]),
        (machine.LabShape(servers=0, cpus=0), ["0 servers: 1 to 16 can be had", "0 CPUs: 1 to 64 can be had"]),
        (machine.LabShape(), []),
    ],
    ids=["rails", "two", "none"],
)
def test_what_cannot_be_built_is_said(shape: machine.LabShape, words: list[str]) -> None:
    assert machine.find_problems(shape) == words


def test_modules_are_loaded_after_what_they_need() -> None:
    index = "kernel/fs/9p/9p.ko.xz: kernel/net/9p/9pnet.ko.xz kernel/fs/netfs/netfs.ko.xz\nkernel/net/9p/9pnet.ko.xz:\n"
    order = initramfs.order_modules(initramfs.parse_dependencies(index), ["9pnet", "9p", "built_in"])
    assert [initramfs.parse_module_name(path) for path in order] == ["9pnet", "netfs", "9p"]


def test_a_module_loses_its_signature_and_nothing_else() -> None:
    trailer = bytes(8) + (5).to_bytes(4, "big") + b"~Module signature appended~\n"
    assert initramfs.strip_signature(b"\x7fELF module" + b"12345" + trailer) == b"\x7fELF module"
    assert initramfs.strip_signature(b"\x7fELF module") == b"\x7fELF module"


def test_the_archive_is_one_that_cpio_reads() -> None:
    content = initramfs.pack_archive(initramfs.build_entries(b"BUSYBOX", {"9p": b"ELF"}))
    entries = dict(unpacked(content))
    assert entries["bin/busybox"] == (stat.S_IFREG | 0o755, b"BUSYBOX")
    assert entries["bin/sh"] == (stat.S_IFLNK | 0o777, b"busybox")
    assert entries["load-order"][1] == b"9p.ko\n"
    assert entries["lib/9p.ko"][1] == b"ELF"
    assert b"for folder in etc boot var/lib/trackbed var/lib/kubelet" in entries["init"][1]


def unpacked(content: bytes) -> Iterator[tuple[str, tuple[int, bytes]]]:
    """Of a newc archive: name, mode, content."""
    at = 0
    while True:
        assert content[at : at + 6] == b"070701"
        fields = [int(content[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        name = content[at + 110 : at + 110 + fields[11] - 1].decode()
        if name == "TRAILER!!!":
            return
        begin = (at + 110 + fields[11] + 3) // 4 * 4
        yield name, (fields[1], content[begin : begin + fields[6]])
        at = (begin + fields[6] + 3) // 4 * 4


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("menuentry 'a' {\n\tlinux /boot/vmlinuz-7 ro iommu=pt quiet\n}\n\tlinux /old x\n", "ro iommu=pt quiet"),
        ("linux /boot/vmlinuz-7\n", ""),
        ("# linux /no y\nlinux\t/boot/k 'a=b c' \"d e\"\n", 'a="b c" "d e"'),
    ],
    ids=["first-entry", "no-arguments", "quotes"],
)
def test_the_next_boot_gets_the_arguments_of_the_first_entry(text: str, words: str) -> None:
    assert grub.parse_kernel_arguments(text) == words


@pytest.mark.parametrize("text", ["", "menuentry {\n}\n", "linux '/boot/k\n"], ids=["empty", "no-kernel", "open-quote"])
def test_a_configuration_without_a_kernel_boots_nothing(text: str) -> None:
    with pytest.raises(grub.GrubError, match=r"grub\.cfg"):
        grub.parse_kernel_arguments(text)


@pytest.mark.needs("processes")
def test_update_grub_evaluates_defaults_and_drop_ins_in_order(tmp_path: Path) -> None:
    (tmp_path / "etc/default/grub.d").mkdir(parents=True)
    (tmp_path / "etc/default/grub").write_text(grub.DEFAULT)
    for name, value in (("10-a", "a=1"), ("90-b", "iommu=pt")):
        line = f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX {value}"\n'
        (tmp_path / f"etc/default/grub.d/{name}.cfg").write_text(line)
    done = subprocess.run(
        ["sh", "-c", grub.UPDATE_GRUB], env={**os.environ, "ROOT": str(tmp_path)}, check=False, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert grub.parse_kernel_arguments((tmp_path / grub.CONFIGURATION).read_text()) == "ro a=1 iommu=pt quiet"


@pytest.mark.needs("processes")
def test_a_server_is_born_with_the_defaults_of_its_boot_loader(tmp_path: Path) -> None:
    assert grub.parse_kernel_arguments(grub.render_configuration("7.2")) == "ro quiet"
    with pytest.raises(grub.GrubError, match="damaged"):
        grub.read_kernel_arguments(tmp_path / "disk.img")


@pytest.mark.needs("processes")
def test_what_is_put_on_a_disk_is_read_from_it(tmp_path: Path) -> None:
    (tmp_path / "new/boot/grub").mkdir(parents=True)
    (tmp_path / "new" / grub.CONFIGURATION).write_text(grub.render_configuration("7.2"))
    disk.make_disk(tmp_path / "disk.img", tmp_path / "new")
    assert grub.read_kernel_arguments(tmp_path / "disk.img") == "ro quiet"
    with pytest.raises(disk.DiskError, match=r"boot/nothing is not on .*disk\.img"):
        disk.read_file(tmp_path / "disk.img", "boot/nothing")


@pytest.mark.needs("processes")
def test_a_disk_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "disk.img").write_bytes(b"no file system" * 100)
    with pytest.raises(disk.DiskError, match="damaged"):
        disk.read_file(tmp_path / "disk.img", grub.CONFIGURATION)


A, B, EVERYBODY = b"\x02\0\0\0\0\x0a", b"\x02\0\0\0\0\x0b", b"\xff" * 6


def test_a_switch_floods_what_it_does_not_know_and_learns() -> None:
    segment = Segment(range(3))
    to_a, to_b = A + B + b"\x08\0payload", B + A + b"\x08\0payload"
    assert segment.find_targets(0, to_b) == [1, 2]
    segment.learn(0, to_b)
    assert segment.find_targets(1, to_a) == [0]
    segment.learn(1, to_a)
    assert segment.find_targets(0, to_b) == [1]
    assert segment.find_targets(0, EVERYBODY + A) == [1, 2]
    assert segment.find_targets(0, A + A) == []


def test_frames_cross_the_switch_between_sockets_and_short_ones_are_filled_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ours = switch.open_port("a.sw")
    with ours, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind("b.vm")
        server.settimeout(5)
        switch.build_sender(ours, "b.vm")(B + A + b"\x08\x06ask")
        assert server.recv(100) == (B + A + b"\x08\x06ask").ljust(60, b"\0")
        switch.build_sender(ours, "a.vm")(A + B + b"\x08\x06lost: nobody is at a.vm")


@pytest.mark.parametrize(
    ("reason", "console", "short", "end"),
    [
        ("guest-reset", "reboot: Restarting system", 0, None),
        ("guest-shutdown", "", 0, ("off", "it was shut down from inside")),
        (
            "guest-reset",
            "x\n[ 1.0] Kernel panic - not syncing: oops\ny",
            0,
            ("crashed", "[ 1.0] Kernel panic - not syncing: oops"),
        ),
        ("guest-reset", "", 3, ("crashed", "it reset 3 times within seconds")),
        ("", "", 0, ("crashed", "QEMU ended (it gave no reason): no such device")),
        ("guest-shutdown", "trackbed: the first root failed: x", 0, ("crashed", "trackbed: the first root failed: x")),
    ],
    ids=["reset", "off", "panic", "loop", "qemu", "first-root"],
)
def test_why_a_boot_ended_is_told_apart(reason: str, console: str, short: int, end: tuple[str, str] | None) -> None:
    assert keeper.classify_exit(reason, console, "no such device", short) == end


def test_the_mirror_is_the_one_of_this_machines_release() -> None:
    listed = (
        "http://mirror.example/debian/ bookworm main Debian\n"
        "http://mirror.example/debian/ bookworm main Debian\n"
        "http://mirror.example/debian-security/ bookworm-security main\n"
        "http://other.example/apt/ bookworm main Other\n"
        "http://other.example/apt/ stable main Other\n"
    )
    sources = apt.parse_targets(listed, "bookworm")
    assert sources == [
        apt.AptSource("http://mirror.example/debian", "bookworm"),
        apt.AptSource("http://mirror.example/debian-security", "bookworm-security"),
    ]
    assert apt.choose_mirror(sources, "bookworm") == "http://mirror.example/debian"


def test_without_a_mirror_it_is_said_how_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(apt.MIRROR_VARIABLE, raising=False)
    with pytest.raises(apt.AptError, match=r"TRACKBED_DEBIAN_MIRROR=URL"):
        apt.choose_mirror([], "noble")
    monkeypatch.setenv(apt.MIRROR_VARIABLE, "http://mirror.example/debian/")
    assert apt.choose_mirror([], "noble") == "http://mirror.example/debian"


@pytest.mark.parametrize(
    ("names", "release"),
    [
        (["linux-binary-7.2.9+deb13-amd64", "linux-binary-7.2.12+deb13-amd64"], "7.2.12+deb13-amd64"),
        (["linux-binary-7.2.9+deb13-amd64", "linux-binary-7.2.14+deb13-amd64"], "7.2.14+deb13-amd64"),
        (["linux-binary-7.3.4+deb13-amd64", "linux-binary-7.2.9+deb13-rt-amd64"], None),
    ],
    ids=["there", "gone", "other-series"],
)
def test_a_kernel_that_is_gone_is_replaced_by_the_newest_of_its_series(names: list[str], release: str | None) -> None:
    assert parts.choose_kernel(names, "7.2.12+deb13-amd64") == release


def test_what_packages_have_in_bin_comes_to_lie_below_usr(tmp_path: Path) -> None:
    for name in ("bin/kmod", "usr/bin/rping", "lib/x/y.so"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "bin/lsmod").symlink_to("kmod")
    parts.merge_usr(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["usr"]
    assert (tmp_path / "usr/bin/lsmod").resolve() == tmp_path / "usr/bin/kmod"
    assert (tmp_path / "usr/lib/x/y.so").is_file()


def served(request: bytes) -> list[tuple[bytes, bytes]]:
    """What the agent answers."""
    ours, theirs = socket.socketpair()
    with ours:
        ours.sendall(request)
        agent.handle_request(theirs, "secret")
        response = b"".join(iter(lambda: ours.recv(1 << 16), b""))
    frames = []
    while response:
        length = int.from_bytes(response[1:5], "big")
        frames.append((response[:1], response[5 : 5 + length]))
        response = response[5 + length :]
    return frames


@pytest.mark.needs("processes")
def test_a_command_is_run_for_who_has_the_token() -> None:
    request = b'{"token": "secret", "argv": ["sh", "-c", "echo out; exec >&2; echo no; exit 3"], "seconds": 20}\n'
    assert sorted(served(request)) == [(b"e", b"no\n"), (b"o", b"out\n"), (b"x", b"\0\0\0\x03")]


@pytest.mark.needs("processes")
@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (b'{"token": "guess", "argv": ["true"], "seconds": 1}\n', [(b"r", b"wrong token")]),
        (b'{"argv": ["true"]}\n', []),
        (b"GET / HTTP/1.1\n", []),
        (b"[]\n", []),
        (b'{"token": "secret", "argv": ["sleep", "60"], "seconds": 0.1}\n', [(b"x", b"\0\0\0\x7c")]),
    ],
    ids=["guess", "no-token", "nonsense", "list", "too-long"],
)
def test_others_get_nothing(request_: bytes, answer: list[tuple[bytes, bytes]]) -> None:
    assert served(request_) == answer


def test_a_server_that_is_not_there_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = int(held.getsockname()[1])
    with pytest.raises(channel.ChannelError, match="node-0 cannot be reached"):
        channel.read_boot_id(channel.Channel("node-0", port, ""))


@pytest.mark.parametrize(
    "words",
    [["exec", "node-0", "--", "true"], ["status"], ["reboot", "node-0"], ["break", "node-0", "vfs-count-wrong"]],
    ids=lambda w: w[0],
)
def test_without_servers_the_way_to_have_some_is_told(words: list[str], tmp_path: Path) -> None:
    done = CliRunner().invoke(command, [words[0], "--dir", str(tmp_path), *words[1:]])
    assert done.exit_code == 3
    assert "trackbed lab vm up starts some" in done.output


@pytest.mark.parametrize("verb", ["break", "heal"])
def test_a_fault_that_no_server_can_have_is_refused_with_the_nearest(verb: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(command, [verb, "--dir", str(tmp_path), "node-0", "vfs-count-wrng"])
    assert done.exit_code == 2
    assert "no fault 'vfs-count-wrng' for servers; did you mean 'vfs-count-wrong'?" in done.output


def test_down_without_servers_is_fine(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, ["down", "--dir", str(tmp_path)])
    assert (done.exit_code, done.output) == (0, "nothing was running\n")


def test_a_record_that_is_broken_is_told(tmp_path: Path) -> None:
    (tmp_path / "lab.json").write_text("{")
    done = CliRunner().invoke(command, ["status", "--dir", str(tmp_path)])
    assert done.exit_code == 3
    assert "lab.json cannot be read" in done.output


def test_impossible_servers_are_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, ["up", "--dir", str(tmp_path), "--rail-count", "20"])
    assert done.exit_code == 2
    assert "20 rails: 1 to 8 can be had" in done.output


@pytest.mark.needs("processes")
def test_doctor_names_every_part_in_a_form_for_machines() -> None:
    done = CliRunner().invoke(command, ["doctor", "-o", "json", "--memory", "99999999"])
    assert done.exit_code == 1
    assert '"memory"' in done.output
    assert "fewer servers" in done.output


@pytest.mark.needs("processes")
def test_the_agent_needs_nothing_but_the_standard_library() -> None:
    code = f"import runpy; runpy.run_path({agent.__file__!r})"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("command", [("vm", "run"), ("kubernetes", "run")])
def test_a_run_leaves_what_runs_already_alone(
    command: tuple[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise lab.VmLabError("a lab is running already")

    def wrong(_: Path) -> int:
        pytest.fail("somebody else's lab is thrown away")

    monkeypatch.setattr(parts, "fetch_parts", refused)
    monkeypatch.setattr(lab, "stop_lab", wrong)
    monkeypatch.setattr(control_plane, "stop_control_plane", wrong)
    done = CliRunner().invoke(lab_command, [*command, "--dir", str(tmp_path)])
    assert (done.exit_code, "a lab is running already" in done.output) == (3, True), done.output
