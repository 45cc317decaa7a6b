"""diff and doctor on an unpacked archive: what it holds is judged, what it does not hold is never this host's."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from trackbed.cli.capture import build_wanted
from trackbed.cli.main import cli
from trackbed.doctor.checks import FILE_STEPS
from trackbed.host.machine import Machine, Unreadable
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.archive import unpack
from trackbed.host.snapshot.capture import capture
from trackbed.host.snapshot.recorded import RECORD, open_machine
from trackbed.kernel.netlink import sockets

FABRIC = """apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: train}
spec:
  nodes: [{hosts: gpu-0}]
  rails: 2
  addressing: {scheme: point-to-point, ipv4: 172.20.0.0/16}
"""
KUBELET = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ntopologyManagerPolicy: none\n"


class Programs:
    """A host whose clock follows a time server, or not."""

    def __init__(self, synchronised: str) -> None:
        """`yes` or `no`."""
        self.synchronised = synchronised

    def has_program(self, program: str) -> bool:
        """Three programs."""
        return program in {"timedatectl", "ps", "kubelet"}

    def run(self, argv: Sequence[str]) -> ProgramResult:
        """What each says."""
        outputs = {"timedatectl": f"NTPSynchronized={self.synchronised}", "ps": "kubelet --v=2", "kubelet": "v1.34.1"}
        return ProgramResult(0, f"{outputs[argv[0]]}\n")


def unpacked(tmp_path: Path, synchronised: str = "yes") -> Path:
    host, archive, folder = (tmp_path / name for name in ("host", "host.tar.gz", "unpacked"))
    files = {"proc/cmdline": "quiet", "var/lib/kubelet/config.yaml": KUBELET, "proc/sys/kernel/hostname": "gpu-0"}
    for path, text in files.items():
        (host / path).parent.mkdir(parents=True, exist_ok=True)
        (host / path).write_text(text)
    machine = Machine(host, runner=Programs(synchronised))
    with archive.open("xb") as stream:
        capture(machine, build_wanted(machine), stream, b"k" * 16)
    folder.mkdir()
    unpack(archive, folder)
    return folder


@pytest.fixture
def nothing_of_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever starts a program here or asks this kernel fails the test."""

    def refused(*_: object, **__: object) -> None:
        pytest.fail("this host was asked")

    monkeypatch.setattr(subprocess, "run", refused)
    monkeypatch.setattr(sockets, "_open_socket", refused)


def asked(command: str, tmp_path: Path, root: Path, *arguments: str) -> Result:
    fabric = tmp_path / "fabric.yaml"
    fabric.write_text(FABRIC)
    return CliRunner().invoke(cli, [command, "-f", str(fabric), "--node", "gpu-0", "--root", str(root), *arguments])


CLOCKS = {"yes": "pass", "no": "warn"}


@pytest.mark.usefixtures("nothing_of_this_host")
@pytest.mark.parametrize(("synchronised", "verdict"), CLOCKS.items(), ids=CLOCKS)
def test_doctor_judges_what_programs_said_when_it_was_captured(tmp_path: Path, synchronised: str, verdict: str) -> None:
    done = asked("doctor", tmp_path, unpacked(tmp_path, synchronised), "-o", "json")
    verdicts = {finding["id"]: finding["verdict"] for finding in json.loads(done.stdout)["findings"]}
    assert verdicts["kubelet-clock-skew"] == verdict


@pytest.mark.usefixtures("nothing_of_this_host")
def test_doctor_calls_unknown_what_the_archive_does_not_hold(tmp_path: Path) -> None:
    done = asked("doctor", tmp_path, unpacked(tmp_path), "-o", "json")
    unknown = [finding for finding in json.loads(done.stdout)["findings"] if finding["step"] not in FILE_STEPS]
    assert {"names", "addresses", "routing"} <= {finding["step"] for finding in unknown}
    assert {finding["verdict"] for finding in unknown} == {"unknown"}
    assert done.exit_code in {1, 3}
    assert "not judged: " in done.stderr
    assert "does not hold its network state" in done.stderr


@pytest.mark.usefixtures("nothing_of_this_host")
def test_doctor_tells_people_in_one_line_what_was_not_judged(tmp_path: Path) -> None:
    done = asked("doctor", tmp_path, unpacked(tmp_path))
    assert "routing" not in done.stdout
    assert done.stderr.count("not judged: ") == 1


@pytest.mark.usefixtures("nothing_of_this_host")
def test_diff_does_not_compare_an_archive_with_this_hosts_network(tmp_path: Path) -> None:
    done = asked("diff", tmp_path, unpacked(tmp_path))
    assert (done.exit_code, done.stdout) == (3, "")
    assert "does not hold its network state" in done.stderr


@pytest.mark.parametrize("command", ["diff", "doctor"])
def test_a_broken_record_is_named(tmp_path: Path, command: str) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / RECORD).write_text("{")
    done = asked(command, tmp_path, tmp_path / "tree")
    assert done.exit_code == 2
    assert "cannot be read" in done.stderr


@pytest.mark.usefixtures("nothing_of_this_host")
def test_a_captured_machine_has_no_network_and_no_kernel_parameters(tmp_path: Path) -> None:
    machine = open_machine(unpacked(tmp_path))
    assert isinstance(machine.read_sysctl("net/ipv4/ip_forward"), Unreadable)
    with pytest.raises(OSError, match="does not hold its network state"):
        machine.open_socket()
    with pytest.raises(OSError, match="does not hold its network state"):
        machine.write_sysctl("net/ipv4/ip_forward", "1")


@pytest.mark.needs("namespaces")
def test_a_namespace_that_is_named_is_asked(tmp_path: Path) -> None:
    done = asked("diff", tmp_path, unpacked(tmp_path), "--netns", "/proc/self/ns/net", "-o", "json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["changes"]


def test_nothing_is_applied_below_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = unpacked(tmp_path)
    monkeypatch.setattr(sockets, "Socket", None)
    (tmp_path / "fabric.yaml").write_text(FABRIC)
    for options in (["--yes"], ["--dry-run"], ["--undo"]):
        words = ["apply", "-f", str(tmp_path / "fabric.yaml"), "--root", str(folder), *options]
        done = CliRunner().invoke(cli, words)
        assert (done.exit_code, "nothing is applied below" in done.stderr) == (2, True), done.output
