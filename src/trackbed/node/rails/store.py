"""Which attachments there are, as the journal tells it, and which addresses they hold.

    ADD     held  ── kernel work ──>  done  ── answer      held: written before the kernel is touched
                 └─ failed, undone ──>  gone               done: on the disk (fdatasync) before the runtime hears of it
    DEL           ── kernel work ──>  gone  ── answer

Each record is complete in itself, so a lost one makes no other wrong. What the journal can be wrong about, and why no
address is then held twice and none is lost:

- *held without done* (the agent died in between, or `done` was damaged): at start the kernel is asked. Everything is
  there: it is kept, since the runtime may have been answered. Not everything: undone, and the addresses are free.
- *done, but nothing in the kernel* (`gone` was lost, or the namespace ended without DEL): free at start.
- *in the kernel, but no record* (`held` was lost): a macvlan's MAC is a function of its address and the kernel refuses
  a second one (see attachment.mac_of), so another pod gets another address; a port that moved is not on the host.
  DEL removes what it finds in the pod; ADD of the same pod clears it away first.
- *a later attachment holds the same address*: the earlier one's `gone` was lost; the later one counts.
- *another boot*: all namespaces are gone and so are all attachments. So only a kill of the agent has to be survived
  without the disk, and the page cache does survive it: that is why `held` and `gone` need not wait for the disk.

One lock around every method; the journal is touched nowhere else.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from trackbed.fabric.plan.plan import AddressPlan
from trackbed.node.rails.addresses import next_free
from trackbed.node.rails.attachment import Attachment, Key
from trackbed.node.rails.journal import Journal, JournalError

_log = logging.getLogger(__name__)

_COMPACT_BYTES = 1 << 20

Blocks = dict[int, tuple[AddressPlan, ...]]
"""What a pod may get on each rail: one block for each IP version."""
Chosen = dict[int, tuple[AddressPlan, ...]]
"""What a pod gets on each rail."""


Place = tuple[int, int]
"""What moves into a pod: a rail, and the number of the VF (PORT_ITSELF: the port)."""


class ExhaustedError(Exception):
    """Nothing is free on `rail`; `count` of `what` are planned for this node."""

    def __init__(self, rail: int, count: int, what: str = "addresses") -> None:
        super().__init__(f"rail {rail}: all {count} {what} are taken")
        self.rail = rail
        self.count = count


class TakenError(Exception):
    """`rail` is not to be had: its port is in another pod, or the pod has the rail already."""


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
class Entry:
    """An attachment; `done`: the kernel work was finished."""

    attachment: Attachment
    done: bool


def survives(entry: Entry, *, whole: bool, present: bool) -> bool:
    """Whether an attachment is kept at start; `whole`: the kernel has all of it, `present`: it has something of it."""
    return whole or (entry.done and present)


class Store:
    """The attachments of one node. Safe for use by several threads."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.Lock()
        self._entries: dict[Key, Entry] = {}
        self._last: dict[int, int] = {}
        for payload in journal.found.payloads:
            self._replay(payload)
        if journal.found.damaged_bytes:
            _log.warning("the journal had %d damaged bytes; the kernel decides", journal.found.damaged_bytes)

    def entries(self) -> tuple[Entry, ...]:
        """All attachments."""
        with self._lock:
            return tuple(self._entries.values())

    def get(self, key: Key) -> Entry | None:
        """One attachment."""
        with self._lock:
            return self._entries.get(key)

    def away(self) -> dict[Place, Attachment]:
        """The node's ports and VFs that are in pods, and in which."""
        with self._lock:
            return self._away()

    def sharing(self, attachment: Attachment) -> bool:
        """Whether another attachment is in the same network namespace."""
        return any(
            entry.attachment.inode == attachment.inode and entry.attachment.key != attachment.key
            for entry in self.entries()
        )

    def hold(
        self, blocks: Blocks, avoid: Iterable[tuple[int, int]], make: Callable[[Chosen], Attachment]
    ) -> Attachment:
        """Choose addresses, make the attachment with them, and write it down as begun.

        Raises:
            ExhaustedError: a rail has no free address.
            TakenError: another attachment of this pod has one of the rails.
            JournalError: it could not be written; nothing is held.
        """
        with self._lock:
            taken = self._taken() | set(avoid)
            chosen: Chosen = {}
            for rail, block in blocks.items():
                found = next_free(block, taken, self._last.get(rail))
                if found is None:
                    raise ExhaustedError(rail, min(own.pods_count for own in block))
                chosen[rail] = found
            attachment = make(chosen)
            self._check_alone(attachment)
            self._append(_Held(attachment), sync=False)
            self._entries[attachment.key] = Entry(attachment, done=False)
            self._last.update({rail: own[0].address for rail, own in chosen.items() if own})
            return attachment

    def take(
        self,
        choose: Callable[[Mapping[Place, Attachment]], dict[int, int]],
        make: Callable[[dict[int, int]], Attachment],
    ) -> Attachment:
        """Choose ports or VFs given those that are in pods, make the attachment with them, write it down as begun.

        Raises:
            TakenError: another attachment has one of them, or of this pod one of the rails.
            ExhaustedError: there is none left on a rail.
            JournalError: it could not be written; nothing is taken.
        """
        with self._lock:
            attachment = make(choose(self._away()))
            self._check_alone(attachment)
            self._check_addresses(attachment)
            self._append(_Held(attachment), sync=False)
            self._entries[attachment.key] = Entry(attachment, done=False)
            return attachment

    def done(self, key: Key) -> None:
        """The kernel work of an ADD is finished: on the disk when this returns; JournalError if it cannot be."""
        with self._lock:
            self._append(_Done(key), sync=True)
            self._entries[key] = Entry(self._entries[key].attachment, done=True)

    def release(self, key: Key) -> None:
        """Nothing is left of an attachment. Never fails: what a full disk does not take now is written later."""
        with self._lock:
            if self._entries.pop(key, None) is None:
                return
            try:
                self._append(_Gone(key), sync=False)
            except JournalError as error:
                _log.warning("%s; that %s/%s is gone will be written later", error, *key)

    def trouble(self) -> str | None:
        """Why an ADD could not be written down, or None; tries to put the journal right first."""
        with self._lock:
            try:
                if self._journal.behind:
                    self._rewrite()
            except JournalError as error:
                return str(error)
            return self._journal.room()

    def free(self, blocks: Blocks) -> dict[int, int]:
        """How many places are free on each rail that has a block."""
        with self._lock:
            taken = self._taken()
        held = {
            rail: sum((own[0].version, own[0].pods_first + at) in taken for at in range(own[0].pods_count))
            for rail, own in blocks.items()
            if own
        }
        return {rail: min(own.pods_count for own in blocks[rail]) - count for rail, count in held.items()}

    def close(self) -> None:
        """Let another agent have the journal."""
        with self._lock:
            self._journal.close()

    def _check_alone(self, attachment: Attachment) -> None:
        """Two attachments of one pod must not share a rail: they would share its name, and DEL of one the other's."""
        rails = {port.rail for port in attachment.ports}
        for entry in self._entries.values():
            shared = rails & {port.rail for port in entry.attachment.ports}
            if shared and entry.attachment.inode == attachment.inode:
                raise TakenError(f"rail {min(shared)}: the pod has it already, as {entry.attachment}")

    def _check_addresses(self, attachment: Attachment) -> None:
        """A VF's address is its own, yet a pod attached in another mode may have been given it."""
        taken = self._taken()
        for port in attachment.ports:
            for own in port.addresses:
                if (own.addressed.version, own.addressed.address) in taken:
                    raise TakenError(f"rail {port.rail}: address {own.text} is in another pod")

    def _away(self) -> dict[Place, Attachment]:
        return {
            (port.rail, port.host.vf): entry.attachment
            for entry in self._entries.values()
            for port in entry.attachment.ports
            if port.host is not None
        }

    def _taken(self) -> set[tuple[int, int]]:
        return {
            (own.addressed.version, own.addressed.address)
            for entry in self._entries.values()
            for port in entry.attachment.ports
            for own in port.addresses
        }

    def _append(self, record: _Record, *, sync: bool) -> None:
        if self._journal.behind:
            self._rewrite()
        elif self._journal.bytes > _COMPACT_BYTES:
            with suppress(JournalError):  # it is only long; the record may still fit
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
            _log.warning("a record of the journal is none of ours: %s", error)
            return
        match record:
            case _Held(attachment):
                self._supersede(attachment)
                self._entries[attachment.key] = Entry(attachment, done=False)
                self._last.update(_firsts(attachment))
            case _Done(key) if key in self._entries:
                self._entries[key] = Entry(self._entries[key].attachment, done=True)
            case _Gone(key):
                self._entries.pop(key, None)
            case _Last(addresses):
                self._last.update(addresses)

    def _supersede(self, attachment: Attachment) -> None:
        """Drop attachments whose addresses a later one holds."""
        mine = {own.text for port in attachment.ports for own in port.addresses}
        for key, entry in tuple(self._entries.items()):
            if any(own.text in mine for port in entry.attachment.ports for own in port.addresses):
                del self._entries[key]


def _firsts(attachment: Attachment) -> dict[int, int]:
    return {port.rail: port.addresses[0].addressed.address for port in attachment.ports if port.addresses}
