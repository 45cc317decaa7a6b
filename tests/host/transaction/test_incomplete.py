"""An undo, or the restoration of a failed apply, that is incomplete: its record is kept until all is restored."""

import signal
import subprocess
import sys
from dataclasses import replace
from errno import EACCES, ENOSPC, EPERM
from pathlib import Path

import pytest

from tests.host.places import PORTS, Host, everything
from tests.host.steps.fabrics import P2P, node_plan
from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.kinds.registry import KINDS
from trackbed.host.machine import Machine
from trackbed.host.steps import iter_settings
from trackbed.host.transaction import undo as undoing
from trackbed.host.transaction.apply import (
    UNDO_AGAIN,
    ApplyError,
    ApplyOptions,
    NothingToUndoError,
    apply,
    describe_undo,
    undo,
)
from trackbed.host.transaction.compare import compare
from trackbed.host.transaction.record import load_record, save_record
from trackbed.kernel.netlink.sockets import ReplyTimeoutError

ARP_IGNORE = "net/ipv4/conf/eth0/arp_ignore"


@pytest.fixture
def node() -> NodePlan:
    return node_plan(P2P, PORTS)


class Jammed(Machine):
    """A machine on which one kernel parameter cannot be set back."""

    def write_sysctl(self, key: str, value: str) -> None:
        """Refuse the value before the apply."""
        if key.endswith("0/arp_ignore") and value == "0":
            raise OSError(EACCES, "Permission denied")
        super().write_sysctl(key, value)


class Broken(Jammed):
    """A machine on which an apply fails as well."""

    def write_sysctl(self, key: str, value: str) -> None:
        """Refuse a value of the plan, too."""
        if key.endswith("conf/rail1/arp_ignore") and value == "1":
            raise OSError(EPERM, "Operation not permitted")
        super().write_sysctl(key, value)


def jam(place: Host) -> Machine:
    return Jammed(place.machine.root, place.machine.netns)


def apply_and_fail(place: Host, node: NodePlan, options: ApplyOptions | None = None) -> str:
    broken = Broken(place.machine.root, place.machine.netns)
    with pytest.raises(ApplyError) as caught:
        apply(broken, iter_settings(node), place.records, options=options or ApplyOptions())
    return str(caught.value)


def test_an_incomplete_undo_is_completed_by_the_next(place: Host, node: NodePlan) -> None:
    before = everything(place.machine)
    apply(place.machine, iter_settings(node), place.records)
    for _ in range(2):
        assert undo(jam(place), place.records) == (f"{ARP_IGNORE}: Permission denied",)
        assert place.machine.read_sysctl(ARP_IGNORE) == "1"
    assert undo(place.machine, place.records) == ()
    assert place.machine.read_sysctl(ARP_IGNORE) == "0"
    assert everything(place.machine) == before
    with pytest.raises(NothingToUndoError):
        undo(place.machine, place.records)


def test_a_failed_apply_that_was_not_put_back_entirely_can_be_undone(place: Host, node: NodePlan) -> None:
    before = everything(place.machine)
    message = apply_and_fail(place, node)
    assert message.endswith(f"; put back, except: {ARP_IGNORE}: Permission denied; {UNDO_AGAIN}")
    assert "then `trackbed apply --undo` restores the rest" in message
    assert undo(place.machine, place.records) == ()
    assert place.machine.read_sysctl(ARP_IGNORE) == "0"
    assert everything(place.machine) == before
    assert load_record(place.records) is None


def test_a_kind_that_cannot_be_restored_hinders_no_other(
    place: Host, node: NodePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def time_out(*_: object) -> tuple[str, ...]:
        raise ReplyTimeoutError("the kernel did not answer within 10 seconds")

    before = everything(place.machine)
    apply(place.machine, iter_settings(node), place.records, {"/etc/netplan/90-trackbed.yaml": "network: {}\n"})
    kinds = tuple(replace(kind, restore=time_out) if kind.name == "sysctl" else kind for kind in KINDS)
    with monkeypatch.context() as patch:
        patch.setattr(undoing, "KINDS", kinds)
        assert undo(place.machine, place.records) == ("sysctl: the kernel did not answer within 10 seconds",)
    assert not place.machine.locate("/etc/netplan/90-trackbed.yaml").exists()
    assert place.index("eth0")
    assert undo(place.machine, place.records) == ()
    assert everything(place.machine) == before


class Interrupted(Jammed):
    """A machine whose user presses Ctrl-C during an apply."""

    def write_sysctl(self, key: str, value: str) -> None:
        """Press the keys at a value of the plan."""
        if key.endswith("conf/rail1/arp_ignore") and value == "1":
            raise KeyboardInterrupt
        super().write_sysctl(key, value)


def test_what_an_interrupted_apply_cannot_put_back_is_told(place: Host, node: NodePlan) -> None:
    with pytest.raises(ApplyError, match=f"^it was interrupted; put back, except: {ARP_IGNORE}: Permission denied"):
        apply(Interrupted(place.machine.root, place.machine.netns), iter_settings(node), place.records)
    assert undo(place.machine, place.records) == ()


def test_an_undo_after_a_reboot_names_the_next(place: Host, node: NodePlan) -> None:
    apply(place.machine, iter_settings(node), place.records)
    assert describe_undo(place.records) == "the state before the last apply is restored"
    record = load_record(place.records)
    assert record is not None
    save_record(place.records, record._replace(boot="another"))
    assert "reboot this host to have the rest as it was before" in describe_undo(place.records)


def test_an_apply_after_an_incomplete_undo_can_be_undone_to_before_the_first(place: Host, node: NodePlan) -> None:
    before = everything(place.machine)
    apply(place.machine, iter_settings(node), place.records)
    undo(jam(place), place.records)
    apply(place.machine, iter_settings(node), place.records)
    assert undo(place.machine, place.records) == ()
    assert place.machine.read_sysctl(ARP_IGNORE) == "0"
    assert everything(place.machine) == before


class Fragile(Machine):
    """A machine on which an apply fails and can be put back."""

    def write_sysctl(self, key: str, value: str) -> None:
        """Refuse a value of the plan."""
        if key.endswith("conf/rail1/arp_ignore") and value == "1":
            raise OSError(EPERM, "Operation not permitted")
        super().write_sysctl(key, value)


def test_after_a_failed_apply_that_was_put_back_undo_means_the_apply_before(place: Host, node: NodePlan) -> None:
    before = everything(place.machine)
    apply(place.machine, iter_settings(node), place.records)
    place.machine.write_sysctl("net/ipv4/conf/rail1/arp_ignore", "0")
    fragile = Fragile(place.machine.root, place.machine.netns)
    with pytest.raises(ApplyError, match="everything was put back"):
        apply(fragile, iter_settings(node), place.records)
    assert undo(place.machine, place.records) == ()
    assert everything(place.machine) == before


KILLED = """
import os, signal, sys
from pathlib import Path
from trackbed.host.transaction.apply import undo
from trackbed.host.machine import Machine

class Doomed(Machine):
    writes = 0
    def write_sysctl(self, key, value):
        Doomed.writes += 1
        if Doomed.writes == int(sys.argv[3]):
            os.kill(os.getpid(), signal.SIGKILL)
        super().write_sysctl(key, value)

undo(Doomed(Path(sys.argv[1]), Path(sys.argv[2])), Path(sys.argv[4]))
"""


@pytest.mark.parametrize("applied_again", [False, True])
@pytest.mark.parametrize("writes", [1, 4])
def test_a_killed_undo_is_completed_by_the_next_also_after_another_apply(
    place: Host, node: NodePlan, writes: int, *, applied_again: bool
) -> None:
    before = everything(place.machine)
    apply(place.machine, iter_settings(node), place.records)
    arguments = [str(place.machine.root), str(place.machine.netns), str(writes), str(place.records)]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, *arguments], cwd=Path(__file__).parents[3], timeout=60, check=False
    )
    assert done.returncode == -signal.SIGKILL
    if applied_again:
        apply(place.machine, iter_settings(node), place.records)
    assert undo(place.machine, place.records) == ()
    assert everything(place.machine) == before
    assert place.machine.read_sysctl(ARP_IGNORE) == "0"


def test_a_full_disk_does_not_prevent_an_undo(place: Host, node: NodePlan, monkeypatch: pytest.MonkeyPatch) -> None:
    before = everything(place.machine)
    apply(place.machine, iter_settings(node), place.records)

    def fill_disk(*_: object) -> None:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr("trackbed.host.transaction.record.atomic.replace", fill_disk)
    assert undo(place.machine, place.records) == ()
    assert everything(place.machine) == before


def test_a_repair_that_was_not_put_back_entirely_names_the_next_repair(place: Host, node: NodePlan) -> None:
    apply(place.machine, iter_settings(node), place.records)
    for rail in (0, 1):
        place.machine.write_sysctl(f"net/ipv4/conf/rail{rail}/arp_ignore", "0")
    changes = compare(place.machine, iter_settings(node)).changes
    options = ApplyOptions(repairs=frozenset((change.step, change.subject) for change in changes))
    message = apply_and_fail(place, node, options)
    assert message.endswith("; the next repair tries again, and `trackbed apply` sets everything")
    assert load_record(place.records / "repair") is not None
    apply(place.machine, iter_settings(node), place.records)
    assert load_record(place.records / "repair") is None


def test_carrier_counts_that_cannot_be_saved_are_a_warning(
    place: Host, node: NodePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_disk(*_: object) -> None:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr("trackbed.host.transaction.carriers.replace", fill_disk)
    applied = apply(place.machine, iter_settings(node), place.records)
    (warning,) = applied.warnings
    assert "carriers.json ([Errno 28] No space left on device)" in warning
    assert "everything is applied" in warning
    assert applied.changes
    assert place.differs(node) == []
