"""All steps at once on one host: what is applied stays, is undone, and survives a kill at any point."""

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from tests.host.kernel import RdmaCore, speak_to
from tests.host.kinds.test_dcb import FRESH
from tests.host.nics import Drivers, install
from tests.host.places import Host, everything
from tests.host.steps.fabrics import P2P, node_plan
from tests.host.trees import Scripted, everything_below, grow, grub_host, nic, update_grub
from trackbed.host.setting import Setting
from trackbed.host.steps import iter_settings
from trackbed.host.transaction.apply import ApplyOptions, apply, undo
from trackbed.host.transaction.compare import compare

PORTS = '[{pci: "0000:18:00.0", netdev: eth0}, {pci: "0000:3a:00.0", netdev: eth1}]'
MORE = """\
  names: {netdev: keep}
  vfs: {count: 4}
  kernel: {isolatedCpus: 4-7}
  rdma: {namespaceMode: exclusive}
  kubelet: {topologyManager: restricted, reservedCpus: 0-3}
"""


def wanted() -> tuple[Setting, ...]:
    """What a Fabric that asks for everything wants of a host."""
    return iter_settings(node_plan(P2P, PORTS, spec=MORE))


def programs(root: Path) -> Scripted:
    """The programs of the host, doing to its files what the real ones do."""
    return Scripted({"update-grub": lambda _: update_grub(root), "systemctl": lambda _: None})


@pytest.fixture
def host(place: Host, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A host that has something of everything."""
    grub_host(place)
    root = place.machine.root
    speak_to(RdmaCore(root), monkeypatch)
    file = root / "drivers.json"
    file.write_bytes(msgspec.json.encode({"eth0": FRESH}))
    install(Drivers(file=file), monkeypatch)
    for number, (netdev, pci) in enumerate((("eth0", "0000:18:00.0"), ("eth1", "0000:3a:00.0"))):
        nic(root, netdev, pci, rdma=f"mlx5_{number}")
        grow(
            root,
            {f"/sys/class/net/{netdev}/qos/trust": "pcp\n", f"/sys/class/net/{netdev}/ecn/roce_np/cnp_dscp": "0\n"},
        )
    for folder in ("run/systemd/system", "etc/security/limits.d"):
        (root / folder).mkdir(parents=True)
    grow(
        root,
        {
            "/usr/lib/systemd/system/multi-user.target": "",
            "/usr/lib/systemd/system/containerd.service": "",
            "/var/lib/kubelet/config.yaml": "kind: KubeletConfiguration\n",
            "/var/lib/kubelet/cpu_manager_state": '{"policyName":"none"}',
            "/etc/trackbed/boot.sh": "an older one\n",
        },
    )
    place.machine.locate("/etc/trackbed/boot.sh").chmod(0o700)
    return Host(replace(place.machine, runner=programs(root)), place.far)


def state(host: Host) -> object:
    """All files (attributes without the driver's own words around the value), and the whole network."""
    files = {
        path: (text.strip().rpartition("=")[2] if "/infiniband/" in path else text.strip(), mode)
        for path, (text, mode) in everything_below(host.machine.root).items()
    }
    return files, everything(host.machine)


def test_everything_is_applied_once_and_undone(host: Host) -> None:
    before = state(host)
    done = apply(host.machine, wanted(), host.records)
    assert {change.step for change in done.changes} == {
        *("cmdline", "rdma", "vfs", "addresses", "routing", "qos", "limits", "kubelet", "runtime")
    }
    assert [(change.subject, change.reboot) for change in done.remaining.changes] == [("kernel arguments", True)]
    after = state(host)
    assert apply(host.machine, wanted(), host.records).changes == ()
    assert state(host) == after
    assert undo(host.machine, host.records) == ()
    assert state(host) == before


def test_until_the_next_boot_no_file_is_touched(host: Host) -> None:
    before = set(everything_below(host.machine.root))
    done = apply(host.machine, wanted(), host.records, options=ApplyOptions(until_reboot=True))
    assert {change.step for change in done.changes} >= {"rdma", "vfs", "addresses", "routing"}
    assert {path for path in set(everything_below(host.machine.root)) ^ before if path.startswith("etc/")} == set()
    assert [change.subject for change in done.remaining.changes] == []


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.host.kernel import RdmaCore
from tests.host.nics import Drivers, NicSocket
from tests.host.transaction.test_whole_chain import programs, wanted
from trackbed.host import rdma_core
from trackbed.host.transaction import apply, rounds
from trackbed.host.machine import Machine

left = int(sys.argv[4])
perform = rounds.perform_operation

def doomed(machine, change, operation):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    perform(machine, change, operation)

rounds.perform_operation = doomed
root = Path(sys.argv[1])
rdma_core.open_socket = lambda machine: RdmaCore(root)
Machine.open_socket = lambda machine: NicSocket(machine, Drivers(file=root / "drivers.json"))
apply.apply(Machine(root, Path(sys.argv[2]), programs(root)), wanted(), Path(sys.argv[3]))
"""


@pytest.mark.parametrize("operations", [1, 2, 4, 5, 6, 8, 9, 20, 25, 30])
def test_a_kill_before_any_operation_is_finished_by_the_next_apply_and_undone(host: Host, operations: int) -> None:
    before = state(host)
    killed(host, operations)
    apply(host.machine, wanted(), host.records)
    assert [change.subject for change in compare(host.machine, wanted()).changes] == ["kernel arguments"]
    assert undo(host.machine, host.records) == ()
    assert state(host) == before


@pytest.mark.parametrize("operations", [2, 6, 9, 25])
def test_a_killed_apply_can_be_undone_at_once(host: Host, operations: int) -> None:
    before = state(host)
    killed(host, operations)
    assert undo(host.machine, host.records) == ()
    assert state(host) == before


def killed(host: Host, operations: int) -> None:
    """Apply in a process of its own, which ends by SIGKILL before its operation of this number."""
    arguments = [str(host.machine.root), str(host.machine.netns), str(host.records), str(operations)]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, *arguments], cwd=Path(__file__).parents[3], timeout=60, check=False
    )
    assert done.returncode == -signal.SIGKILL
