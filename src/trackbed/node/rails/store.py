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

One lock guards all methods, and only this class accesses the journal.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from trackbed.fabric.plan.plan import AddressPlan
from trackbed.node.rails.addresses import find_free_addresses
from trackbed.node.rails.attachment import Attachment, Key
from trackbed.node.rails.journal import Journal, JournalError

_log = logging.getLogger(__name__)

_COMPACT_BYTES = 1 << 20

Blocks = dict[int, tuple[AddressPlan, ...]]
"""Pod addresses by rail: one block for each IP version."""
Chosen = dict[int, tuple[AddressPlan, ...]]
"""A pod's addresses by rail."""
Slot = tuple[int, int]
"""A device that can move into a pod: its rail, and the number of the VF (PORT_ITSELF: the port)."""


class ExhaustedError(Exception):
    """All addresses or VFs of a rail are taken; `count` are planned for this node."""

    def __init__(self, rail: int, count: int, resource: str = "addresses") -> None:
        super().__init__(f"rail {rail}: all {count} {resource} are taken")
        self.rail = rail
        self.count = count


class TakenError(Exception):
    """A rail's port is in another pod, or the pod already has the rail."""


class _Held(msgspec.Struct, frozen=True, tag_field="record", tag="held"):
    attachment: Attachment


class _Done(msgspec.Struct, frozen=True, tag_field="record", tag="done"):
    key: Key


class _Gone(msgspec.Struct, frozen=True, tag_field="record", tag="gone"):
    key: Key


class _Last(msgspec.Struct, frozen=True, tag_field="record", tag="last"):
    addresses: dict[int, int]


_Record = _Held | _Done | _Gone | _Last
_decode = msgspec.json.Decoder(_Record).decode
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class StoreEntry:
    """An attachment; `done`: the kernel work was finished."""

    attachment: Attachment
    done: bool


def is_kept(entry: StoreEntry, *, intact: bool, present: bool) -> bool:
    """Return whether an attachment is kept at start.

    `intact`: the kernel has all of it; `present`: the kernel has at least one of its interfaces.
    """
    return intact or (entry.done and present)


class Store:
    """The attachments of one node. Safe for use by several threads."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.Lock()
        self._entries: dict[Key, StoreEntry] = {}
        self._last: dict[int, int] = {}
        for payload in journal.contents.payloads:
            self._replay(payload)
        if journal.contents.damaged_bytes:
            _log.warning("the journal had %d damaged bytes; the kernel decides", journal.contents.damaged_bytes)

    def list_entries(self) -> tuple[StoreEntry, ...]:
        """Return all attachments."""
        with self._lock:
            return tuple(self._entries.values())

    def get(self, key: Key) -> StoreEntry | None:
        """Return the attachment with this key, or None."""
        with self._lock:
            return self._entries.get(key)

    def list_moved(self) -> dict[Slot, Attachment]:
        """Return the node's ports and VFs that are in pods, each with its attachment."""
        with self._lock:
            return self._list_moved()

    def shares_namespace(self, attachment: Attachment) -> bool:
        """Return whether another attachment is in the same network namespace."""
        return any(
            entry.attachment.inode == attachment.inode and entry.attachment.key != attachment.key
            for entry in self.list_entries()
        )

    def hold_addresses(
        self, blocks: Blocks, avoid: Iterable[tuple[int, int]], build: Callable[[Chosen], Attachment]
    ) -> Attachment:
        """Choose free addresses, build the attachment with them, and record it as held.

        Raises:
            ExhaustedError: a rail has no free address.
            TakenError: another attachment of this pod has one of the rails.
            JournalError: the record could not be written; nothing is held.
        """
        with self._lock:
            taken = self._list_addresses() | set(avoid)
            chosen: Chosen = {}
            for rail, block in blocks.items():
                addresses = find_free_addresses(block, taken, self._last.get(rail))
                if addresses is None:
                    raise ExhaustedError(rail, min(addressed.pods_count for addressed in block))
                chosen[rail] = addresses
            attachment = build(chosen)
            self._check_rails(attachment)
            self._record_held(attachment)
            self._last.update({rail: addresses[0].address for rail, addresses in chosen.items() if addresses})
            return attachment

    def hold_devices(
        self,
        choose: Callable[[Mapping[Slot, Attachment]], dict[int, int]],
        build: Callable[[dict[int, int]], Attachment],
    ) -> Attachment:
        """Choose ports or VFs that are in no pod, build the attachment with them, and record it as held.

        Raises:
            TakenError: another attachment has one of the devices or addresses, or this pod has one of the rails.
            ExhaustedError: a rail has no free device.
            JournalError: the record could not be written; nothing is held.
        """
        with self._lock:
            attachment = build(choose(self._list_moved()))
            self._check_rails(attachment)
            self._check_addresses(attachment)
            self._record_held(attachment)
            return attachment

    def finish(self, key: Key) -> None:
        """Record on the disk that the kernel work of an ADD is finished. Raises JournalError."""
        with self._lock:
            self._append(_Done(key), sync=True)
            self._entries[key] = StoreEntry(self._entries[key].attachment, done=True)

    def release(self, key: Key) -> None:
        """Record that an attachment is gone. Never fails: on a full disk the record is written later."""
        with self._lock:
            if self._entries.pop(key, None) is None:
                return
            try:
                self._append(_Gone(key), sync=False)
            except JournalError as error:
                _log.warning("%s; that %s/%s is gone will be written later", error, *key)

    def check_journal(self) -> str | None:
        """Return why an ADD could not be recorded, or None; rewrite a journal that is behind first."""
        with self._lock:
            try:
                if self._journal.behind:
                    self._rewrite()
            except JournalError as error:
                return str(error)
            return self._journal.check_room()

    def count_free(self, blocks: Blocks) -> dict[int, int]:
        """Return the number of free addresses of each rail that has a block."""
        with self._lock:
            taken = self._list_addresses()
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
            if shared and entry.attachment.inode == attachment.inode:
                raise TakenError(f"rail {min(shared)}: the pod has it already, as {entry.attachment}")

    def _check_addresses(self, attachment: Attachment) -> None:
        """Refuse a VF whose fixed address a pod attached in another mode holds."""
        taken = self._list_addresses()
        for port in attachment.ports:
            for address in port.addresses:
                if (address.addressed.version, address.addressed.address) in taken:
                    raise TakenError(f"rail {port.rail}: address {address.text} is in another pod")

    def _list_moved(self) -> dict[Slot, Attachment]:
        return {
            (port.rail, port.host.vf): entry.attachment
            for entry in self._entries.values()
            for port in entry.attachment.ports
            if port.host is not None
        }

    def _list_addresses(self) -> set[tuple[int, int]]:
        """Return the held addresses, as (IP version, address)."""
        return {
            (address.addressed.version, address.addressed.address)
            for entry in self._entries.values()
            for port in entry.attachment.ports
            for address in port.addresses
        }

    def _record_held(self, attachment: Attachment) -> None:
        self._append(_Held(attachment), sync=False)
        self._entries[attachment.key] = StoreEntry(attachment, done=False)

    def _append(self, record: _Record, *, sync: bool) -> None:
        if self._journal.behind:
            self._rewrite()
        elif self._journal.size_bytes > _COMPACT_BYTES:
            with suppress(JournalError):  # the journal is only long; the record may still fit
                self._rewrite()
        self._journal.append(_encode(record), sync=sync)

    def _rewrite(self) -> None:
        records: list[_Record] = [_Last(self._last)]
        for entry in self._entries.values():
            records.append(_Held(entry.attachment))
            records += [_Done(entry.attachment.key)] if entry.done else []
        self._journal.rewrite(map(_encode, records))

    def _replay(self, payload: bytes) -> None:
        try:
            record = _decode(payload)
        except msgspec.MsgspecError as error:
            _log.warning("a record of the journal has an unknown format: %s", error)
            return
        match record:
            case _Held(attachment):
                self._supersede(attachment)
                self._entries[attachment.key] = StoreEntry(attachment, done=False)
                self._last.update(
                    {port.rail: port.addresses[0].addressed.address for port in attachment.ports if port.addresses}
                )
            case _Done(key) if key in self._entries:
                self._entries[key] = StoreEntry(self._entries[key].attachment, done=True)
            case _Gone(key):
                self._entries.pop(key, None)
            case _Last(addresses):
                self._last.update(addresses)

    def _supersede(self, attachment: Attachment) -> None:
        """Drop earlier attachments that hold an address of this one."""
        texts = {address.text for port in attachment.ports for address in port.addresses}
        for key, entry in tuple(self._entries.items()):
            if any(address.text in texts for port in entry.attachment.ports for address in port.addresses):
                del self._entries[key]
