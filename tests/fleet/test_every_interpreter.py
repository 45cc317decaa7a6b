"""What is sent to hosts runs on every version of Python that a host may have."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from tests.host.places import MACS, everything, host
from tests.host.steps.fabrics import P2P, node_plan
from tests.host.trees import everything_below, grow, nic
from tests.pythons import find_python, on_every_interpreter
from trackbed.fleet import archive, boot
from trackbed.fleet.outcome import Outcome, judge_output
from trackbed.fleet.task import HostTask, Verb, build_inspection, build_task
from trackbed.host.snapshot.reading import LldpReading, parse_reading
from trackbed.host.snapshot.snapshot import Wanted
from trackbed.kernel.netlink.links import build_set_link, list_links

pytestmark = pytest.mark.needs("root", "nsenter")

_CHECK = Path(__file__).with_name("on_interpreter.py")
_NICS = {"eth0": "0000:18:00.0", "eth1": "0000:3a:00.0"}
_PORTS = str(
    [{"pci": pci, "netdev": netdev, "mac": mac} for (netdev, pci), mac in zip(_NICS.items(), MACS, strict=True)]
)
_SPEC = """\
  names: {netdev: keep}
  vfs: {count: 4}
  kernel: {isolatedCpus: 4-7}
  rdma: {namespaceMode: exclusive}
  kubelet: {topologyManager: restricted, reservedCpus: 0-3}
"""
_FILES = {
    "/boot/grub/grub.cfg": "\tlinux\t/vmlinuz root=UUID=3f5a ro quiet\n",
    "/etc/default/grub": 'GRUB_CMDLINE_LINUX_DEFAULT="quiet"\n',
    "/etc/netplan/10-rails.yaml": "network: {}\n",
    "/etc/security/limits.d/README": "",
    "/proc/cmdline": "root=UUID=3f5a ro quiet isolcpus=4-7 nohz_full=4-7 rcu_nocbs=4-7\n",
    "/proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\n",
    "/proc/sys/kernel/random/boot_id": "first\n",
    "/run/systemd/system/marker": "",
    "/usr/lib/systemd/system-generators/netplan": "",
    "/usr/lib/systemd/system/containerd.service": "",
    "/usr/lib/systemd/system/multi-user.target": "",
    "/var/lib/kubelet/config.yaml": "kind: KubeletConfiguration\n",
    "/var/lib/kubelet/cpu_manager_state": '{"policyName":"none"}',
}
_WANTED = Wanted(("/etc/netplan/*", "/proc/cmdline"), ("/sys/class/net/*/device",), ("/etc",), (("ip", "link"),))
_WORKER = (
    "import sys; sys.path.insert(0, sys.argv[1]); from trackbed.fleet.node import main; main(sys.argv[2].encode())"
)
_LATER: tuple[Verb, ...] = ("apply", "undo", "undo")


class _Run(NamedTuple):
    """What an interpreter answered, and what the host was before and after."""

    outcomes: list[Outcome]
    before: object
    changed: object
    after: object


_SILENCE = """
import sys
sys.path.insert(0, sys.argv[1])
from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.sockets import ReplyTimeoutError, Socket
with Socket(timeout_seconds=0.05) as sock:
    try:
        sock.dump(Message(1, 0, bytes(16)))  # NLMSG_NOOP, which the kernel does not answer
    except ReplyTimeoutError as error:
        print(error)
"""


@on_every_interpreter
def test_a_silent_kernel_is_noticed_on_every_interpreter(version: str, tmp_path: Path) -> None:
    _write_sources(tmp_path)
    command = [str(find_python(version)), "-IS", "-c", _SILENCE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr) == ("the kernel did not answer within 0.05 seconds\n", "")


@on_every_interpreter
def test_what_is_sent_finds_all_that_it_uses_on_every_interpreter(version: str, tmp_path: Path) -> None:
    _write_sources(tmp_path)
    command = [str(find_python(version)), "-IS", "-W", "error", str(_CHECK), str(tmp_path), *archive.map_modules()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@on_every_interpreter
def test_a_sheet_of_a_proof_is_run_on_every_interpreter(version: str, tmp_path: Path) -> None:
    _write_sources(tmp_path)
    ping = {"source": "127.0.0.1", "target": "127.0.0.1", "payloadBytes": 4172}
    steps = [[0, {"argv": ["true"]}], [2, {"pings": [ping]}], [4, {"files": ["/proc/self/stat"], "programs": ["none"]}]]
    rounds = [{"round": 0, "at": 0.0, "seconds": 60.0, "steps": steps}]
    request = msgspec.json.encode({"verb": "prove", "seconds": 60}).decode()
    with subprocess.Popen(
        [str(find_python(version)), "-IS", "-W", "error", "-c", _WORKER, str(tmp_path), request],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as worker:
        assert worker.stdin
        assert worker.stdout
        worker.stdin.write(msgspec.json.encode({"sheet": 1, "in": 0.0, "rounds": rounds}) + b"\n")
        worker.stdin.flush()
        began, *lines = [worker.stdout.readline().removeprefix(b"trackbed ") for _ in range(5)]
        _, errors = worker.communicate(timeout=120)
    messages = [msgspec.json.decode(line) for line in lines]
    outputs = {message["id"]: message["output"] for message in messages[:-1]}
    assert (began, messages[-1], errors) == (b"began\n", {"sheet": 1, "round": 0, "done": True}, b"")
    assert outputs[0] == {"status": 0, "stdout": "", "stderr": ""}
    assert outputs[2]["pings"][0]["outcome"] == "answered"
    assert (outputs[4]["missing"], "/proc/self/stat" in outputs[4]["files"]) == (["none"], True)


def _write_sources(folder: Path) -> None:
    for name, (is_package, source) in archive.read_sources().items():
        path = folder / name.replace(".", "/")
        grow(folder, {f"{path.relative_to(folder)}{'/__init__' if is_package else ''}.py": source.decode()})


@pytest.fixture(scope="module")
def own_run(tmp_path_factory: pytest.TempPathFactory) -> _Run:
    return _change_host(Path(sys.executable), tmp_path_factory.mktemp("own"))


def test_a_host_is_compared_applied_and_undone(own_run: _Run) -> None:
    kinds = [outcome.kind for outcome in own_run.outcomes]
    assert kinds == ["same", "same", "differs", "applied", "same", "undone", "undone", "differs"]
    assert own_run.changed != own_run.before
    assert own_run.after == own_run.before


@pytest.mark.support(
    "distribution", "RHEL 9", "modelled", "compare, apply, undo in namespaces on Python 3.9, as it has"
)
@pytest.mark.support(
    "distribution", "Ubuntu 22.04", "modelled", "compare, apply, undo in namespaces on Python 3.10, as it has"
)
@pytest.mark.support(
    "distribution", "DGX OS 6", "modelled", "compare, apply, undo in namespaces on Python 3.10, as it has"
)
@pytest.mark.support(
    "distribution", "Ubuntu 24.04", "modelled", "compare, apply, undo in namespaces on Python 3.12, as it has"
)
@on_every_interpreter
def test_a_host_is_compared_applied_and_undone_alike_on_every_interpreter(
    version: str, tmp_path: Path, own_run: _Run
) -> None:
    run = _change_host(find_python(version), tmp_path)
    assert run.after == run.before
    assert run == own_run


@on_every_interpreter
def test_a_host_is_read_for_doctor_on_every_interpreter(version: str, tmp_path: Path) -> None:
    node, programs = node_plan(P2P, _PORTS, spec=_SPEC), _link_programs(tmp_path / "bin", find_python(version))
    with host(tmp_path) as place:
        grow(place.machine.root, _FILES)
        with place.machine.open_socket() as sock:
            sock.send([build_set_link(link.index, up=True) for link in list_links(sock)])
        outcome = _run_task(build_inspection(node, _WANTED, 0.1, 60), programs, place.machine.root, tmp_path / "near")
    reading = parse_reading(outcome.answer["reading"])
    assert reading.network is not None
    assert {link.name for link in reading.network.links} >= _NICS.keys()
    assert (reading.failure, reading.lldp) == ("", LldpReading({}))
    assert reading.snapshot.read_text("/proc/cmdline") == _FILES["/proc/cmdline"].strip()


def _change_host(python: Path, folder: Path) -> _Run:
    """Compare, apply and undo on a fresh host whose only Python is this one."""
    node = node_plan(P2P, _PORTS, spec=_SPEC)
    programs = _link_programs(folder / "bin", python)
    with host(folder) as place:
        root = place.machine.root
        grow(root, _FILES)
        for netdev, pci in _NICS.items():
            nic(root, netdev, pci)
            grow(root, {f"/sys/class/net/{netdev}/qos/trust": "pcp\n"})

        def run(task: HostTask) -> Outcome:
            return _run_task(task, programs, root, folder / "near")

        def read_state() -> object:
            files = {path: (text.strip(), mode) for path, (text, mode) in everything_below(root).items()}
            return files, everything(place.machine)

        before = read_state()
        outcomes = [
            run(HostTask("capture", node.name, None, {}, "none", 60, _WANTED)),
            run(build_task("boot", node, "none", 60)),
            run(build_task("diff", node, "auto", 60)),
            run(build_task("apply", node, "auto", 60)),
        ]
        changed = read_state()
        outcomes += [run(build_task(verb, node, "auto", 60)) for verb in _LATER]
        after = read_state()
        outcomes.append(run(build_task("diff", node, "auto", 60)))
    return _Run([_without_place(outcome, folder) for outcome in outcomes], before, changed, after)


def _run_task(task: HostTask, programs: Path, root: Path, netns: Path) -> Outcome:
    done = subprocess.run(
        [shutil.which("nsenter") or "", f"--net={netns}", "/bin/sh", "-c", boot.build_command()],
        input=boot.build_payload(task),
        env={"PATH": str(programs), "TRACKBED_ROOT": str(root)},
        capture_output=True,
        timeout=120,
        check=False,
    )
    streams = (text.decode().splitlines() for text in (done.stdout, done.stderr))
    return judge_output(task.name, task.verb, done.returncode, *streams)


def _link_programs(folder: Path, python: Path) -> Path:
    """Make a folder for PATH with what the start on a host needs, and this one Python."""
    folder.mkdir()
    for name in ("sh", "id"):
        (folder / name).symlink_to(shutil.which(name) or "")
    (folder / "python3").symlink_to(python)
    return folder


def _without_place(outcome: Outcome, folder: Path) -> Outcome:
    """Return the outcome without the path of the host's folder."""
    document: Any = msgspec.json.decode(msgspec.json.encode(outcome).replace(str(folder).encode(), b"FOLDER"))
    return msgspec.convert(document, Outcome)
