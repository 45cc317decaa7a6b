"""The attachments of a node, as recorded in the journal, and the addresses they hold.

    ADD     held  ── kernel work ──>  done  ── answer      held: written before the kernel is changed
                 └─ failed, undone ──>  gone               done: on the disk (fdatasync) before the runtime's answer
    DEL           ── kernel work ──>  gone  ── answer

Each record is complete, so a lost one does not invalidate another. The journal can be wrong in the following ways, none
of which holds an address twice or leaks one:

- *held without done* (the agent died in between, or `done` was damaged): the agent queries the kernel at start. A
  complete attachment is kept, since the runtime may have its answer. An incomplete one is undone, which frees its
  addresses.
- *done, but nothing in the kernel* (`gone` was lost, or the namespace ended without DEL): released at start.
- *in the kernel, but no record* (`held` was lost): a macvlan's MAC is derived from its address and the kernel refuses
  a second one (see attachment.derive_mac), so another pod gets another address; a moved port is not on the host. DEL
  removes leftovers in the pod; ADD of the same pod removes them first.
- *a later attachment holds the same address*: the earlier one's `gone` was lost; the later one is valid.
- *another boot*: all namespaces have ended, and all attachments with them. So records must survive a kill of the agent
  but not a power failure; the page cache is enough, and `held` and `gone` do not wait for the disk.

One lock guards all methods, and only this class accesses the journal. No kernel work happens under the lock: devices
that were chosen are reserved while their state is read, and only then recorded.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from trackbed.fabric.plan.plan import AddressPlan
from trackbed.node.rails.attachment import PORT_ITSELF, Attachment, Key, PodPort
from trackbed.node.rails.journal import Journal, JournalError

_log = logging.getLogger(__name__)

_COMPACT_BYTES = 1 << 20

AddressBlocks = dict[int, tuple[AddressPlan, ...]]
"""Planned pod addresses by rail: one block for each IP version."""
ChosenAddresses = dict[int, tuple[AddressPlan, ...]]
"""The addresses chosen for one pod, by rail."""
Slot = tuple[int, int]
"""A device that can move into a pod: its rail, and the number of the VF (PORT_ITSELF for the port itself)."""
AddressKey = tuple[int, int]
"""An IP address: its version, and the address as a number."""


class ExhaustedError(Exception):
    """All addresses or VFs of a rail are in use; `count` are planned for this node."""

    def __init__(self, rail: int, count: int, resource: str = "addresses") -> None:
        super().__init__(f"rail {rail}: all {count} {resource} are taken")
        self.rail = rail
        self.count = count


class TakenError(Exception):
    """A device or an address of a rail is in another pod, or the pod already has the rail."""


class _HeldRecord(msgspec.Struct, frozen=True, tag_field="record", tag="held"):
    attachment: Attachment


class _DoneRecord(msgspec.Struct, frozen=True, tag_field="record", tag="done"):
    key: Key


class _GoneRecord(msgspec.Struct, frozen=True, tag_field="record", tag="gone"):
    key: Key


class _LastRecord(msgspec.Struct, frozen=True, tag_field="record", tag="last"):
    addresses: dict[int, int]


_Record = _HeldRecord | _DoneRecord | _GoneRecord | _LastRecord
_decode = msgspec.json.Decoder(_Record).decode
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class StoreEntry:
    """A recorded attachment; `done` means that the kernel work of its ADD is finished."""

    attachment: Attachment
    done: bool


def is_kept(entry: StoreEntry, *, intact: bool, present: bool) -> bool:
    """Return whether an attachment is kept when the agent starts.

    `intact`: the kernel has all of it; `present`: the kernel has at least one of its interfaces.
    """
    return intact or (entry.done and present)


def find_free_addresses(
    blocks: tuple[AddressPlan, ...], taken: AbstractSet[AddressKey], last_assigned: int | None
) -> tuple[AddressPlan, ...] | None:
    """Return the next free addresses of a rail, one for each IP version, or None if all are in use.

    The addresses of all versions have the same offset in their blocks. The search starts after `last_assigned` and
    wraps around,
    so a released address is reused last. Returns () for a rail without planned addresses.

    Args:
        blocks: the addresses that the plan gives the node on a rail, one block for each IP version.
        taken: addresses that are not free.
        last_assigned: the address of the first version that was assigned last; None if none was.
    """
    if not blocks:
        return ()
    count = min(block.pods_count for block in blocks)
    start = 0 if last_assigned is None else last_assigned - blocks[0].pods_first + 1
    for step in range(count):
        offset = (start + step) % count
        addresses = tuple(block.with_address(block.pods_first + offset) for block in blocks)
        if not any((address.version, address.address) in taken for address in addresses):
            return addresses
    return None


def refuse_used_ports(rails: Iterable[int], used_devices: Mapping[Slot, Attachment]) -> None:
    """Raise TakenError if the port of a rail is in a pod."""
    for rail in rails:
        if (holder := used_devices.get((rail, PORT_ITSELF))) is not None:
            raise TakenError(f"rail {rail}: the port is in pod {holder}")


class Store:
    """The attachments of one node, kept in the journal. It is thread-safe."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.Lock()
        self._entries: dict[Key, StoreEntry] = {}
        self._last: dict[int, int] = {}
        self._reserved: dict[Slot, Attachment] = {}
        """Devices that were chosen and are not recorded yet."""
        for payload in journal.contents.payloads:
            self._replay_record(payload)
        if journal.contents.damaged_bytes:
            _log.warning("the journal had %d damaged bytes; the kernel decides", journal.contents.damaged_bytes)

    @property
    def folder(self) -> Path:
        """The folder of the journal."""
        return self._journal.folder

    def list_entries(self) -> tuple[StoreEntry, ...]:
        """Return the entries of all attachments."""
        with self._lock:
            return tuple(self._entries.values())

    def get(self, key: Key) -> StoreEntry | None:
        """Return the entry of the attachment with this key, or None."""
        with self._lock:
            return self._entries.get(key)

    def map_moved_devices(self) -> dict[Slot, Attachment]:
        """Return the attachments by the port or VF that is in their pod."""
        with self._lock:
            return self._map_moved_devices()

    def shares_namespace(self, attachment: Attachment) -> bool:
        """Return whether another attachment is in the same network namespace as this one."""
        return any(
            entry.attachment.inode == attachment.inode and entry.attachment.key != attachment.key
            for entry in self.list_entries()
        )

    def hold_addresses(
        self,
        blocks: AddressBlocks,
        avoid: Iterable[AddressKey],
        build_attachment: Callable[[ChosenAddresses], Attachment],
    ) -> Attachment:
        """Choose free addresses, build the attachment with them, and record it as held.

        `build_attachment` runs under the lock, so it must not block or use the store.

        Raises:
            ExhaustedError: a rail has no free address.
            TakenError: another attachment of this pod has one of the rails, or the port of a rail moves into a pod.
            JournalError: the record could not be written; nothing is held.
        """
        with self._lock:
            refuse_used_ports(blocks, {**self._map_moved_devices(), **self._reserved})
            taken = self._list_held_addresses() | set(avoid)
            chosen: ChosenAddresses = {}
            for rail, block in blocks.items():
                addresses = find_free_addresses(block, taken, self._last.get(rail))
                if addresses is None:
                    raise ExhaustedError(rail, min(addressed.pods_count for addressed in block))
                chosen[rail] = addresses
            attachment = build_attachment(chosen)
            self._check_rails(attachment)
            self._record_held(attachment)
            self._last.update({rail: addresses[0].address for rail, addresses in chosen.items() if addresses})
            return attachment

    def hold_devices(
        self,
        claimant: Attachment,
        choose_devices: Callable[[Mapping[Slot, Attachment]], dict[int, int]],
        build_ports: Callable[[dict[int, int]], tuple[PodPort, ...]],
    ) -> Attachment:
        """Choose ports or VFs that are in no pod, build the ports of `claimant` with them, and record it as held.

        The chosen devices are reserved while `build_ports` runs, which may take its time and may use the store.

        Raises:
            TakenError: another attachment has one of the devices or addresses, or this pod has one of the rails.
            ExhaustedError: a rail has no free device.
            JournalError: the record could not be written; nothing is held.
            Exception: what `build_ports` raised; nothing is held.
        """
        with self._reserve_devices(claimant, choose_devices) as chosen:
            attachment = msgspec.structs.replace(claimant, ports=build_ports(chosen))
            with self._lock:
                self._check_rails(attachment)
                self._check_addresses(attachment)
                self._record_held(attachment)
            return attachment

    @contextmanager
    def _reserve_devices(
        self, claimant: Attachment, choose_devices: Callable[[Mapping[Slot, Attachment]], dict[int, int]]
    ) -> Iterator[dict[int, int]]:
        """Choose devices that nobody has or has reserved, and reserve them for the length of the block."""
        with self._lock:
            chosen = choose_devices({**self._map_macvlan_ports(), **self._map_moved_devices(), **self._reserved})
            slots = tuple(chosen.items())
            self._reserved |= dict.fromkeys(slots, claimant)
        try:
            yield chosen
        finally:
            with self._lock:
                for slot in slots:
                    del self._reserved[slot]

    def mark_done(self, key: Key) -> None:
        """Record on the disk that the kernel work of an ADD is finished. Raises JournalError."""
        with self._lock:
            self._append_record(_DoneRecord(key), sync=True)
            self._entries[key] = StoreEntry(self._entries[key].attachment, done=True)

    def release(self, key: Key) -> None:
        """Record that an attachment is gone. It never fails: if the disk is full, the record is written later."""
        with self._lock:
            if self._entries.pop(key, None) is None:
                return
            try:
                self._append_record(_GoneRecord(key), sync=False)
            except JournalError as error:
                _log.warning("%s; that %s/%s is gone will be written later", error, *key)

    def check_journal(self) -> str | None:
        """Return why an ADD could not be recorded, or None if it could.

        A journal that lacks records is rewritten first.
        """
        with self._lock:
            try:
                if self._journal.needs_rewrite:
                    self._rewrite_journal()
            except JournalError as error:
                return str(error)
            return self._journal.check_free_space()

    def count_free_addresses(self, blocks: AddressBlocks) -> dict[int, int]:
        """Return the number of free addresses of each rail that has a block."""
        with self._lock:
            taken = self._list_held_addresses()
        held = {
            rail: sum((first.version, first.pods_first + offset) in taken for offset in range(first.pods_count))
            for rail, (first, *_) in ((rail, block) for rail, block in blocks.items() if block)
        }
        return {rail: min(addressed.pods_count for addressed in blocks[rail]) - count for rail, count in held.items()}

    def close(self) -> None:
        """Close the journal, so that another agent can open it."""
        with self._lock:
            self._journal.close()

    def _check_rails(self, attachment: Attachment) -> None:
        """Refuse a second attachment of one pod on a rail, because both would have the same interface name."""
        rails = {port.rail for port in attachment.ports}
        for entry in self._entries.values():
            shared = rails & {port.rail for port in entry.attachment.ports}
            if shared and _is_same_pod(entry.attachment, attachment):
                raise TakenError(f"rail {min(shared)}: the pod has it already, as {entry.attachment}")

    def _check_addresses(self, attachment: Attachment) -> None:
        """Refuse a VF whose fixed address a pod attached in another mode holds."""
        taken = self._list_held_addresses()
        for port in attachment.ports:
            for address in port.addresses:
                if (address.plan.version, address.plan.address) in taken:
                    raise TakenError(f"rail {port.rail}: address {address.text} is in another pod")

    def _map_macvlan_ports(self) -> dict[Slot, Attachment]:
        """Return attachments by a port on which they have a macvlan; it goes down if the port moves."""
        return {
            (port.rail, PORT_ITSELF): entry.attachment
            for entry in self._entries.values()
            for port in entry.attachment.ports
            if port.host is None
        }

    def _map_moved_devices(self) -> dict[Slot, Attachment]:
        return {
            (port.rail, port.host.vf): entry.attachment
            for entry in self._entries.values()
            for port in entry.attachment.ports
            if port.host is not None
        }

    def _list_held_addresses(self) -> set[AddressKey]:
        """Return the addresses that attachments hold."""
        return {
            (address.plan.version, address.plan.address)
            for entry in self._entries.values()
            for port in entry.attachment.ports
            for address in port.addresses
        }

    def _record_held(self, attachment: Attachment) -> None:
        self._append_record(_HeldRecord(attachment), sync=False)
        self._entries[attachment.key] = StoreEntry(attachment, done=False)

    def _append_record(self, record: _Record, *, sync: bool) -> None:
        if self._journal.needs_rewrite:
            self._rewrite_journal()
        elif self._journal.size_bytes > _COMPACT_BYTES:
            with suppress(JournalError):  # the journal is only due for compaction; the record may still fit
                self._rewrite_journal()
        self._journal.append(_encode(record), sync=sync)

    def _rewrite_journal(self) -> None:
        records: list[_Record] = [_LastRecord(self._last)]
        for entry in self._entries.values():
            records.append(_HeldRecord(entry.attachment))
            records += [_DoneRecord(entry.attachment.key)] if entry.done else []
        self._journal.rewrite(map(_encode, records))

    def _replay_record(self, payload: bytes) -> None:
        try:
            record = _decode(payload)
            if isinstance(record, _HeldRecord):
                _check_attachment(record.attachment)
        except (msgspec.MsgspecError, ValueError) as error:
            _log.warning("a record of the journal has an unknown format: %s", error)
            return
        match record:
            case _HeldRecord(attachment):
                self._drop_superseded(attachment)
                self._entries[attachment.key] = StoreEntry(attachment, done=False)
                self._last.update(
                    {port.rail: port.addresses[0].plan.address for port in attachment.ports if port.addresses}
                )
            case _DoneRecord(key) if key in self._entries:
                self._entries[key] = StoreEntry(self._entries[key].attachment, done=True)
            case _GoneRecord(key):
                self._entries.pop(key, None)
            case _LastRecord(addresses):
                self._last.update(addresses)

    def _drop_superseded(self, attachment: Attachment) -> None:
        """Drop earlier attachments that hold an address of this one."""
        texts = {address.text for port in attachment.ports for address in port.addresses}
        for key, entry in tuple(self._entries.items()):
            if any(address.text in texts for port in entry.attachment.ports for address in port.addresses):
                del self._entries[key]


def _check_attachment(attachment: Attachment) -> None:
    """Raise ValueError if an attachment has no ports, or an address that is none."""
    if not attachment.ports:
        raise ValueError(f"{attachment} has no ports")
    for port in attachment.ports:
        for address in port.addresses:
            address.plan  # noqa: B018 - parses it


def _is_same_pod(held: Attachment, new: Attachment) -> bool:
    """Return whether two attachments are in one pod, which has one sandbox, or one path of its network namespace.

    The inode alone does not tell: the kernel uses it again once a namespace is gone, also before the DEL of its pod.
    """
    return held.inode == new.inode and (held.container == new.container or held.netns == new.netns)
