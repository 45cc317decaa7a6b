"""No address is held twice and none is lost, whatever is done, killed or damaged."""

import os
import shutil
import tempfile
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec import structs

from trackbed.fabric.plan.plan import AddressPlan
from trackbed.node.rails import choice
from trackbed.node.rails.attachment import Attachment, HostPort, Key, PodPort, to_pod_address
from trackbed.node.rails.journal import Journal, JournalError
from trackbed.node.rails.store import AddressBlocks, ChosenAddresses, ExhaustedError, Store, TakenError, is_kept

BLOCKS: AddressBlocks = {rail: (AddressPlan(4, 1000 * rail + 1, 24, 0, 1000 * rail + 2, 4),) for rail in (1, 2)}
KEYS = [(f"c{number}", "net1") for number in range(6)]


def _make(key: Key, chosen: ChosenAddresses, host: HostPort | None = None) -> Attachment:
    ports = tuple(
        PodPort(rail, f"rail{rail}", "", 9000, tuple(map(to_pod_address, address)), host)
        for rail, address in chosen.items()
    )
    return Attachment(*key, "rails", "macvlan", f"/netns/{key[0]}", int(key[0][1:]), "boot", ports)


def _make_in_first_pod(key: Key, chosen: ChosenAddresses) -> Attachment:
    return structs.replace(_make(key, chosen), inode=0, netns="/netns/c0")


def _addresses(attachment: Attachment) -> set[str]:
    return {address.text for port in attachment.ports for address in port.addresses}


def _hold(store: Store, key: Key) -> Attachment:
    return store.hold_addresses(BLOCKS, (), lambda chosen: _make(key, chosen))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(Journal(tmp_path))


def test_what_is_held_and_done_is_there_after_a_restart(store: Store, tmp_path: Path) -> None:
    first, second = _hold(store, KEYS[0]), _hold(store, KEYS[1])
    store.mark_done(first.key)
    store.close()
    again = Store(Journal(tmp_path))
    assert [(entry.attachment, entry.done) for entry in again.list_entries()] == [(first, True), (second, False)]


@pytest.mark.parametrize(
    "ports",
    ["[]", '[{"rail":1,"name":"rail1","mac":"","mtu_bytes":1,"addresses":[{"text":"nonsense"}]}]'],
    ids=["no ports", "no address"],
)
def test_a_record_of_nonsense_keeps_no_pod_from_its_rails(tmp_path: Path, ports: str) -> None:
    journal = Journal(tmp_path)
    head = '"container":"c9","ifname":"net1","network":"rails","mode":"macvlan","netns":"/x","inode":9,"boot":"boot"'
    journal.append(f'{{"record":"held","attachment":{{{head},"ports":{ports}}}}}'.encode(), sync=False)
    journal.close()
    store = Store(Journal(tmp_path))
    assert store.list_entries() == ()
    assert _hold(store, KEYS[0]).key == KEYS[0]


def test_a_rail_that_is_full_is_named(store: Store) -> None:
    for key in KEYS[:4]:
        _hold(store, key)
    with pytest.raises(ExhaustedError, match="rail 1: all 4 addresses are taken"):
        _hold(store, KEYS[4])
    assert store.count_free_addresses(BLOCKS) == {1: 0, 2: 0}


def test_the_order_of_addresses_goes_on_after_restart_and_compaction(store: Store, tmp_path: Path) -> None:
    _hold(store, KEYS[0])
    store.release(KEYS[0])
    store.close()
    journal = Journal(tmp_path)
    journal.needs_rewrite = True  # so that the next record rewrites it
    store = Store(journal)
    assert _hold(store, KEYS[1]).ports[0].addresses[0].text == "0.0.3.235/24"
    store.release(KEYS[1])
    store.close()
    assert _hold(Store(Journal(tmp_path)), KEYS[2]).ports[0].addresses[0].text == "0.0.3.236/24"


def test_a_pod_gets_its_rails_although_one_whose_namespace_vanished_had_its_inode(store: Store) -> None:
    _hold(store, KEYS[0])
    reused = store.hold_addresses(BLOCKS, (), lambda chosen: structs.replace(_make(KEYS[1], chosen), inode=0))
    assert {entry.attachment.key for entry in store.list_entries()} == {KEYS[0], reused.key}
    for again in (("c0", "net2"), ("c2", "net1")):  # the sandbox of the first pod, and the path of its namespace
        with pytest.raises(TakenError, match="rail 1: the pod has it already, as c0/net1"):
            store.hold_addresses(BLOCKS, (), partial(_make_in_first_pod, again))


def test_a_port_moves_into_one_pod_only(store: Store) -> None:
    host = HostPort("rail1", 7, 9000, up=True, conf={})
    _hold_port(store, KEYS[0], host)
    with pytest.raises(TakenError, match="rail 1: the port is in pod c0/net1"):
        _hold_port(store, KEYS[1], host)


def _hold_port(store: Store, key: Key, host: HostPort) -> Attachment:
    return store.hold_devices(
        _make(key, {}), partial(choice.choose_ports, {1: ""}), lambda _: _make(key, BLOCKS, host).ports
    )


def test_a_port_is_reserved_while_its_state_is_read(store: Store) -> None:
    host = HostPort("rail1", 7, 9000, up=True, conf={})

    def build_ports(_: dict[int, int]) -> tuple[PodPort, ...]:
        assert store.list_entries() == ()
        with pytest.raises(TakenError, match="rail 1: the port is in pod c0/net1"):
            _hold_port(store, KEYS[1], host)
        with pytest.raises(TakenError, match="rail 1: the port is in pod c0/net1"):
            _hold(store, KEYS[2])
        return _make(KEYS[0], BLOCKS, host).ports

    held = store.hold_devices(_make(KEYS[0], {}), partial(choice.choose_ports, {1: ""}), build_ports)
    assert [entry.attachment for entry in store.list_entries()] == [held]


def test_a_port_whose_state_cannot_be_read_is_free_for_the_next_pod(store: Store) -> None:
    def fail(_: dict[int, int]) -> tuple[PodPort, ...]:
        raise OSError(19, "No such device")

    with pytest.raises(OSError, match="No such device"):
        store.hold_devices(_make(KEYS[0], {}), partial(choice.choose_ports, {1: ""}), fail)
    assert _hold_port(store, KEYS[1], HostPort("rail1", 7, 9000, up=True, conf={})).key == KEYS[1]


def test_an_address_that_another_pod_has_goes_to_no_vf(store: Store) -> None:
    address = _hold(store, KEYS[0]).ports[0].addresses[0]
    host = HostPort("rail1v0", 7, 9000, up=False, conf={}, vf=0, pf="rail1")
    with pytest.raises(TakenError, match=f"rail 1: address {address.text} is in another pod"):
        store.hold_devices(
            _make(KEYS[1], {}), lambda _: {1: 0}, lambda _: _make(KEYS[1], {1: (address.plan,)}, host).ports
        )


def test_nothing_is_held_that_could_not_be_written(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", _no_space)
    with pytest.raises(JournalError, match="cannot take a record: No space left on device"):
        _hold(store, KEYS[0])
    monkeypatch.undo()
    assert store.list_entries() == ()
    assert _hold(store, KEYS[0]).ports[0].addresses[0].text == "0.0.3.234/24"


def test_a_release_on_a_full_disk_is_written_later(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _hold(store, KEYS[0])
    monkeypatch.setattr(os, "write", _no_space)
    store.release(KEYS[0])
    assert "No space left on device" in str(store.check_journal())
    monkeypatch.undo()
    assert store.check_journal() is None
    store.close()
    assert Store(Journal(tmp_path)).list_entries() == ()


def test_of_two_records_of_one_address_the_later_counts(store: Store, tmp_path: Path) -> None:
    first = _hold(store, KEYS[0])
    store.close()
    journal = Journal(tmp_path)
    held = journal.contents.payloads[0].replace(b'"c0"', b'"c1"')
    journal.append(held, sync=False)  # as if c0's end had been lost
    journal.close()
    again = Store(Journal(tmp_path))
    assert [entry.attachment.container for entry in again.list_entries()] == ["c1"]
    assert _addresses(again.list_entries()[0].attachment) == _addresses(first)


def _no_space(_: int, __: bytes) -> int:
    raise OSError(28, "No space left on device")


class Node(RuleBasedStateMachine):
    """A store and a kernel: `live` is what the kernel has, by pod, with the addresses it has up.

    Like the real one, the kernel takes no address twice. `missing` are pods whose record was damaged away.
    """

    @initialize()
    def begin(self) -> None:
        """A node that has just started."""
        self.folder = Path(tempfile.mkdtemp())
        self.store = Store(Journal(self.folder))
        self.live: dict[Key, set[str]] = {}
        self.damaged = False

    def teardown(self) -> None:
        """Nothing stays."""
        self.store.close()
        shutil.rmtree(self.folder)

    @rule(key=st.sampled_from(KEYS), crash=st.sampled_from(["no", "before the kernel", "after the kernel"]))
    def add(self, key: Key, crash: str) -> None:
        """ADD, perhaps with a crash on the way and without a second try."""
        if self.store.get(key):
            return
        self.live.pop(key, None)  # what is left of an attachment without record is cleared away first
        avoid: set[tuple[int, int]] = set()
        for _ in range(10):
            try:
                attachment = self.store.hold_addresses(BLOCKS, avoid, lambda chosen: _make(key, chosen))
            except ExhaustedError:
                held = {address for addresses in self.live.values() for address in addresses}
                assert len(held) >= 8 - 1, "an address is lost"
                return
            refused = _addresses(attachment) & {address for addresses in self.live.values() for address in addresses}
            assert self.damaged or not refused, "an address is held twice without any damage"
            if not refused:
                break
            self.store.release(key)
            avoid |= {(4, address.plan.address) for port in attachment.ports for address in port.addresses}
        else:
            return
        if crash != "before the kernel":
            self.live[key] = _addresses(attachment)
        if crash == "no":
            self.store.mark_done(key)
        else:
            self.restart()

    @rule(key=st.sampled_from(KEYS), crash=st.booleans())
    def delete(self, key: Key, crash: bool) -> None:
        """DEL, perhaps crashed and asked again."""
        self.live.pop(key, None)
        if crash:
            self.restart()
        self.store.release(key)

    @rule()
    def compact(self) -> None:
        """The journal is rewritten."""
        self.store._journal.needs_rewrite = True  # noqa: SLF001 - what a failed write leaves
        assert self.store.check_journal() is None

    @rule(count=st.integers(1, 400))
    def cut(self, count: int) -> None:
        """The end of the journal is lost."""
        path = self.folder / "journal"
        self.damaged = True
        os.truncate(path, max(0, path.stat().st_size - count))
        self.restart()

    @precondition(lambda self: (self.folder / "journal").stat().st_size > 0)
    @rule(data=st.data())
    def flip(self, data: st.DataObject) -> None:
        """A byte of the journal changes."""
        raw = bytearray((self.folder / "journal").read_bytes())
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
        self.damaged = True
        (self.folder / "journal").write_bytes(raw)
        self.restart()

    @rule()
    def restart(self) -> None:
        """The agent starts again and asks the kernel."""
        self.store.close()
        self.store = Store(Journal(self.folder))
        for entry in self.store.list_entries():
            have = self.live.get(entry.attachment.key)
            whole = have == _addresses(entry.attachment)
            if not is_kept(entry, intact=whole, present=have is not None):
                self.store.release(entry.attachment.key)
            elif not entry.done:
                self.store.mark_done(entry.attachment.key)

    @invariant()
    def no_address_is_held_twice(self) -> None:
        """Neither on record nor in the kernel."""
        held = [address for entry in self.store.list_entries() for address in _addresses(entry.attachment)]
        live = [address for addresses in self.live.values() for address in addresses]
        assert len(held) == len(set(held))
        assert len(live) == len(set(live))

    @invariant()
    def no_address_is_lost(self) -> None:
        """What is held is in the kernel, and without damage the other way round."""
        held = {entry.attachment.key for entry in self.store.list_entries()}
        assert held <= set(self.live), "held for a pod that has nothing"
        assert self.damaged or held == set(self.live)


TestNode = Node.TestCase
TestNode.settings = settings(max_examples=60, stateful_step_count=30)
