"""An archive that may be sent: nothing tells whose machine it was, and it reads like the machine."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.host import h100
from trackbed.cli.capture import build_wanted
from trackbed.host.discover.rails import choose_rails
from trackbed.host.discover.read import read_inventory
from trackbed.host.discover.wanted import WANTED
from trackbed.host.machine import Machine
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot import capture as module
from trackbed.host.snapshot.archive import unpack
from trackbed.host.snapshot.capture import CaptureResult, capture
from trackbed.host.snapshot.recorded import RECORD, open_machine
from trackbed.host.snapshot.snapshot import Wanted
from trackbed.host.snapshot.take import read_snapshot

KEY = b"k" * 16
FILES = {
    "/etc/machine-id": "0123456789abcdef0123456789abcdef",
    "/etc/netplan/50-acme-train17.yaml": """network:
  ethernets:
    enp26s0f0:
      match: {macaddress: 'b8:3f:d2:00:1a:00'}
      set-name: rail0
      addresses: [10.8.3.17/24, 'fd12:3456:789a::17/64']
  wifis: {w: {access-points: {x: {password: hunter2}}}}
""",
    "/etc/NetworkManager/system-connections/acme-office.nmconnection": "[wifi-security]\npsk=hunter2\n",
    "/etc/containerd/config.toml": """[plugins."io.containerd.grpc.v1.cri".registry.mirrors."registry.acme.corp:5000"]
[plugins."io.containerd.grpc.v1.cri".registry.configs."registry.acme.corp:5000".auth]
password = "hunter2"
""",
    "/etc/default/grub": """GRUB_CMDLINE_LINUX="ip=10.8.3.17::10.8.3.1:255.255.255.0:acme-train17:eno1"
GRUB_CMDLINE_LINUX_DEFAULT="rd.iscsi.password=hunter2"
""",
    "/etc/rancher/rke2/config.yaml": "server: https://rke.acme.corp:9345\ntoken: hunter2\n",
    "/etc/os-release": 'ID=ubuntu\nVERSION_ID="22.04"\n',
    "/proc/1/comm": "systemd",
    "/proc/77/comm": "acme-secret-app",
    "/proc/99/comm": "kubelet",
    "/proc/99/limits": "Limit  Soft Limit  Hard Limit  Units",
    "/proc/77/limits": "Limit  Soft Limit  Hard Limit  Units",
}
TRACES = (
    "acme",
    "hunter2",
    "10.8.3",
    "3456:789a",
    "b8:3f:d2:00:1a:00",
    "b83fd2001a00",
    "0123456789abcdef",
    "MT2340J88735",
)


class Sent(NamedTuple):
    """A host, its unpacked archive, and what was left out of it."""

    machine: Machine
    folder: Path
    result: CaptureResult


class Programs:
    """Three programs of the host."""

    def has_program(self, program: str) -> bool:
        """Return whether it is one of them."""
        return program in {"dmesg", "lspci", "ip"}

    def run(self, argv: Sequence[str]) -> ProgramResult:
        """Return what they print."""
        outputs = {
            "dmesg": "[1.0] acme-train17 mlx5_core 0000:1a:00.0 b8:3f:d2:00:1a:00\n"
            + "x" * (2 << 20)
            + "\nlast line\n",
            "lspci": "\t\t\t[SN] Serial number: MT2340J88735   \n",
            "ip": '[{"ifname":"rail0","addr_info":[{"local":"10.8.3.17"}]}]\n',
        }
        return ProgramResult(0, outputs[argv[0]])


def build_machine(tmp_path: Path, files: dict[str, str], functions: int | None = 3) -> Machine:
    """Return the host with these files and with so many PCI functions, which are the two onboard ports with three."""
    root = h100.write_host(tmp_path / "host", h100.list_functions()[:functions], files)
    return Machine(root, runner=Programs())


def unpack_capture(machine: Machine, tmp_path: Path, wanted: Wanted | None = None) -> tuple[Path, CaptureResult]:
    archive, folder = tmp_path / "capture.tar.gz", tmp_path / "unpacked"
    with archive.open("xb") as stream:
        result = capture(machine, wanted or build_wanted(machine), stream, KEY)
    folder.mkdir()
    unpack(archive, folder)
    return folder, result


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Sent:
    """Return the host, its unpacked archive, and what was left out."""
    place = tmp_path_factory.mktemp("sent")
    machine = build_machine(place, FILES, None)
    return Sent(machine, *unpack_capture(machine, place))


def list_traces(folder: Path) -> list[tuple[str, str]]:
    """Return what is left of the machine's identity and secrets, in names, links and contents."""
    traces = []
    for path in sorted(folder.rglob("*")):
        text = (
            str(path.readlink()) if path.is_symlink() else path.read_bytes().decode("latin-1") if path.is_file() else ""
        )
        traces += [
            (trace, str(path.relative_to(folder)))
            for trace in TRACES
            if trace.lower() in f"{path.relative_to(folder)} {text}".lower()
        ]
    return traces


def test_nothing_tells_whose_machine_it_was(sent: Sent) -> None:
    folder, result = sent.folder, sent.result
    assert list_traces(folder) == []
    assert (folder / "proc/sys/kernel/hostname").read_text().startswith("host-")
    assert result.withheld == {}, "connections are not even read"
    assert not (folder / "proc/77").exists()
    assert (folder / "proc/99/comm").read_text() == "kubelet\n"


def test_it_reads_like_the_machine(sent: Sent) -> None:
    machines = sent.machine, open_machine(sent.folder)
    live, again = (read_inventory(read_snapshot(machine, WANTED)) for machine in machines)
    assert [rail.nic.pci for rail in choose_rails(again).rails] == list(h100.RAILS)
    assert [(nic.pci, nic.path, nic.id, nic.netdev, nic.pcie) for nic in again.nics] == [
        (nic.pci, nic.path, nic.id, nic.netdev, nic.pcie) for nic in live.nics
    ]
    assert again.gpus == live.gpus
    for nic, other in zip(live.nics, again.nics, strict=True):
        assert nic.mac is not None
        assert other.mac is not None
        assert (nic.mac[:8], nic.mac[-2:], nic.mac == other.mac) == (other.mac[:8], other.mac[-2:], False)


def test_a_file_and_the_kernel_still_agree_about_a_mac(sent: Sent) -> None:
    folder = sent.folder
    mac = (folder / "sys/class/net/enp26s0f0/address").read_text().strip()
    netplan = next((folder / "etc/netplan").iterdir()).read_text()
    assert mac in netplan
    assert "set-name: rail0" in netplan
    assert (folder / "etc/os-release").read_text() == FILES["/etc/os-release"] + "\n"


def test_long_output_keeps_its_beginning_and_its_end(sent: Sent) -> None:
    folder = sent.folder
    outputs = {tuple(each["argv"]): each["output"] for each in json.loads((folder / RECORD).read_text())["outputs"]}
    assert len(outputs["dmesg",]) < module.MAX_OUTPUT_BYTES + 200
    assert "mlx5_core 0000:1a:00.0" in outputs["dmesg",]
    assert "bytes left out" in outputs["dmesg",]
    assert outputs["dmesg",].endswith("last line\n")


def test_a_file_in_which_something_remains_is_left_out_and_named(tmp_path: Path) -> None:
    machine = build_machine(tmp_path, {"/etc/odd.conf": "port = b83fd2000101", "/etc/os-release": "ID=x"})
    wanted = Wanted(files=("/etc/odd.conf", "/etc/os-release", "/sys/class/net/*/address"))
    folder, result = unpack_capture(machine, tmp_path, wanted)
    reason = "a name, address or serial number of this machine was found in it"
    assert (result.withheld, (folder / "etc/odd.conf").exists()) == ({"/etc/odd.conf": reason}, False)
    assert (folder / "etc/os-release").exists()


def test_the_largest_files_go_first_when_the_limit_is_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 1000)
    machine = build_machine(tmp_path, {"/etc/large": "x " * 500, "/etc/small": "y"})
    folder, result = unpack_capture(machine, tmp_path, Wanted(files=("/etc/large", "/etc/small")))
    assert set(result.withheld) == {"/etc/large"}
    assert (folder / "etc/small").read_text() == "y\n"
    assert json.loads((folder / RECORD).read_text())["withheld"] == dict(result.withheld)


def test_two_captures_of_one_machine_cannot_be_matched(tmp_path: Path) -> None:
    machine = build_machine(tmp_path, {})
    archives = []
    for key in (b"a" * 16, b"b" * 16):
        capture(
            machine,
            Wanted(files=("/proc/sys/kernel/hostname", "/sys/class/net/*/address")),
            stream := io.BytesIO(),
            key,
        )
        with tarfile.open(fileobj=io.BytesIO(stream.getvalue())) as archive:
            names = [member for member in archive if member.name.endswith(("/hostname", "/address"))]
            archives.append({content.read() for member in names if (content := archive.extractfile(member))})
    assert len(archives[0]) == len(archives[1]) == 3
    assert archives[0].isdisjoint(archives[1])
