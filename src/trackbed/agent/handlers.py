"""What each CNI command does: ADD, DEL, CHECK, GC, STATUS, VERSION (CNI specification 1.1, section 2).

    ADD     record what will be held -> kernel -> record that it is done -> result      any failure: undone, then told
    DEL     kernel -> record that it is gone                                            nothing there: fine
    CHECK   kernel against record, and conflicts heard of
    GC      DEL for every attachment of the network that the runtime does not list
    STATUS  can an ADD be written down?  (A rail that is full or a port that is missing fails the ADD that needs it.
            It is not told here: a runtime makes the whole node unready then, for pods without rails too.)

Asked twice, an ADD gives the same answer and changes nothing; if the pod is no longer as attached it is set up again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from trackbed.agent import cdi, choice, leftovers, pod, protocol, rdma
from trackbed.agent.attachment import Attachment, Key
from trackbed.agent.batch import TAKEN, THERE, StepsRefusedError
from trackbed.agent.conflicts import Conflicts
from trackbed.agent.errors import CniError, Code
from trackbed.agent.journal import JournalError
from trackbed.agent.macvlan import Macvlan
from trackbed.agent.move import Move
from trackbed.agent.phases import Phases
from trackbed.agent.protocol import Request
from trackbed.agent.result import result
from trackbed.agent.sandbox import OWN, Sandbox, known, opened
from trackbed.agent.store import Entry, ExhaustedError, Store, TakenError, survives
from trackbed.agent.turns import Turns
from trackbed.netlink.codec import NetlinkError
from trackbed.plan.plan import NodePlan

_log = logging.getLogger(__name__)

DevicesOf = Callable[[str, str], dict[int, str]]
"""The device of each rail that a pod was given, by namespace and name."""


@dataclass(frozen=True, slots=True)
class Kubelet:
    """What a kubelet adds: it hands out rails, and its runtime reads CDI specifications."""

    devices_of: DevicesOf
    cdi: Path
    """Folder of the specifications."""


_TRIES = 16
_TURN_SECONDS = 30.0
_MANAGER = Path("/dev/infiniband/rdma_cm")
_UNDONE = "everything was undone"


class Handlers:
    """The commands, for one node."""

    def __init__(
        self, node: NodePlan, store: Store, conflicts: Conflicts, boot: str, kubelet: Kubelet | None = None
    ) -> None:
        """`kubelet`: None where there is none; then every pod gets all rails, and no device files."""
        self._node = node
        self._store = store
        self._conflicts = conflicts
        self._boot = boot
        self._kubelet = kubelet
        self._home = os.open(OWN, os.O_RDONLY | os.O_CLOEXEC)
        self._vfs = node.common.vfs
        self._macvlan = Macvlan(node)
        self._move = Move(node, self._home)
        self._turns = Turns(_TURN_SECONDS)
        self._commands: dict[str, Callable[[Request, Phases], bytes]] = {
            "ADD": self._add,
            "DEL": self._delete,
            "CHECK": self._check,
            "GC": self._collect,
            "STATUS": self._status,
            "VERSION": self._version,
        }

    @property
    def moved(self) -> list[str]:
        """Ports that have been in a pod since the agent started."""
        return sorted(self._move.moved)

    def call(self, request: Request, phases: Phases) -> bytes:
        """Do what a request asks for and return what to print; CniError if it failed."""
        with _told():
            return self._commands[request.command](request, phases)

    def reconcile(self) -> None:
        """Make record and kernel agree; see `store` for what can differ. To be called once, before any request."""
        for entry in self._store.entries():
            try:
                self._settle(entry)
            except (StepsRefusedError, NetlinkError, OSError) as error:
                _log.warning("%s could not be settled, a DEL will try again: %s", entry.attachment, error)
        if self._kubelet is not None:
            cdi.keep(self._kubelet.cdi, {entry.attachment.key for entry in self._store.entries()})

    def _add(self, request: Request, phases: Phases) -> bytes:
        mode, rails = self._asked(request)
        phases.mark("asked")
        if not rails:
            return msgspec.json.encode({**(request.previous or {}), "cniVersion": request.version})
        with self._turns.of(request.key), opened(request.netns) as sandbox:
            phases.mark("open")
            attachment = self._again(request.key, mode, rails, sandbox)
            phases.mark("known")
            attachment = attachment or self._anew(request, mode, rails, sandbox, phases)
        told = msgspec.json.encode(result(request.version, attachment, self._node.common, request.previous))
        phases.mark("result")
        return told

    def _asked(self, request: Request) -> tuple[str, dict[int, str]]:
        """Mode and rails of an ADD, each rail with the device that the kubelet gave ("" for none)."""
        mode, rails = protocol.wanted(request.config)
        have = tuple(port.rail for port in self._node.ports)
        if rails is None and request.pod is not None and self._kubelet is not None:
            given = self._kubelet.devices_of(*request.pod)
        else:
            given = dict.fromkeys(have if rails is None else rails, "")
        for rail in given:
            if rail not in have:
                listed = ", ".join(map(str, have))
                raise CniError(Code.CONFIG, f"rails names {rail}, but node {self._node.name} has rails {listed}")
        return mode or self._node.common.pod_mode, given

    def _again(self, key: Key, mode: str, rails: dict[int, str], sandbox: Sandbox) -> Attachment | None:
        """The attachment if there is one already, set up again if need be; None if one has to be made."""
        entry = self._store.get(key)
        if entry is None:
            return None
        attachment = entry.attachment
        asked = (sandbox.inode, mode, rails)
        if (attachment.inode, attachment.mode, {port.rail: port.device for port in attachment.ports}) != asked:
            self._remove(attachment)
            return None
        whole = not pod.look(attachment, self._node.common, sandbox).differences
        if whole:
            self._inject(attachment, sandbox)
        else:
            self._detach(attachment, sandbox)
            self._attach(attachment, sandbox)
        if not (whole and entry.done):
            self._store.done(key)
        return attachment

    def _anew(self, request: Request, mode: str, rails: dict[int, str], sandbox: Sandbox, phases: Phases) -> Attachment:
        avoid: set[tuple[int, int]] = set()
        for attempt in range(_TRIES):
            try:
                attachment = self._hold(request, mode, rails, sandbox, avoid)
            except CniError:
                if not self._cleared(sandbox):
                    raise
                continue
            phases.mark("record")
            try:
                self._attach(attachment, sandbox)
                phases.mark("kernel")
                self._store.done(attachment.key)
                phases.mark("commit")
            except StepsRefusedError as error:
                self._undo(attachment, sandbox)
                unknown = set(_addresses(attachment, error.rails(TAKEN)))
                leftover = attempt == 0 and bool(error.rails(THERE))
                if not unknown and not leftover:
                    raise
                avoid |= unknown
                if leftover:
                    self._cleared(sandbox)
            except (JournalError, NetlinkError, CniError, OSError):
                self._undo(attachment, sandbox)
                raise
            else:
                return attachment
        raise CniError(
            Code.EXHAUSTED, f"{_TRIES} times in turn the kernel said that a chosen address is taken", _UNDONE
        )

    def _hold(
        self, request: Request, mode: str, rails: dict[int, str], sandbox: Sandbox, avoid: set[tuple[int, int]]
    ) -> Attachment:
        head = (*request.key, request.network, mode, request.netns, sandbox.inode, self._boot)
        name = "/".join(request.pod) if request.pod else ""
        if mode != "macvlan":
            choose = partial(choice.ports, rails) if mode == "move" else partial(choice.vfs, rails, self._vfs)
            return self._store.take(choose, lambda chosen: Attachment(*head, self._move.ports(chosen, rails), name))
        blocks = self._macvlan.blocks(rails)
        return self._store.hold(
            blocks, avoid, lambda chosen: Attachment(*head, self._macvlan.ports(chosen, request.key, rails), name)
        )

    def _delete(self, request: Request, phases: Phases) -> bytes:
        with self._turns.of(request.key):
            entry = self._store.get(request.key)
            if entry is not None:
                self._remove(entry.attachment, request.netns)
            elif request.netns:
                self._remove_unknown(request.netns)
            phases.mark("kernel")
        self._conflicts.forget(request.key)
        return b""

    def _check(self, request: Request, phases: Phases) -> bytes:
        previous = request.previous
        if previous is None:
            raise CniError(Code.CONFIG, "CHECK needs prevResult, the result of the ADD")
        entry = self._store.get(request.key)
        if entry is None and not self._asked(request)[1]:
            return b""
        if entry is None:
            raise CniError(Code.DIFFERS, f"no rails are attached to {request.key[0]}/{request.key[1]}")
        attachment = entry.attachment
        with opened(request.netns) as sandbox:
            differences = [*pod.look(attachment, self._node.common, sandbox).differences]
        listed = {address.get("address") for address in previous.get("ips") or []}
        differences += [
            f"rail {port.rail}: prevResult lacks {own.text}"
            for port in attachment.ports
            for own in port.addresses
            if own.text not in listed
        ]
        differences += self._conflicts.told(request.key)
        phases.mark("kernel")
        if differences:
            raise CniError(Code.DIFFERS, "; ".join(differences), "DEL and ADD the pod again to set it up anew")
        return b""

    def _collect(self, request: Request, phases: Phases) -> bytes:
        valid = protocol.valid_attachments(request.config)
        if valid is None:
            return b""
        failed = []
        for entry in self._store.entries():
            attachment = entry.attachment
            if attachment.network != request.network or attachment.key in valid or not entry.done:
                continue
            try:
                with self._turns.of(attachment.key):
                    self._remove(attachment)
            except (StepsRefusedError, NetlinkError, CniError, OSError) as error:
                failed.append(f"{attachment}: {error}")
        phases.mark("kernel")
        if failed:
            raise CniError(Code.KERNEL, "; ".join(failed), "the others were removed")
        return b""

    def _status(self, request: Request, phases: Phases) -> bytes:
        del request
        trouble = self._store.trouble()
        phases.mark("record")
        if trouble:
            raise CniError(Code.NOT_AVAILABLE, trouble, "no pod can get rails until then; DEL works")
        return b""

    def _version(self, request: Request, phases: Phases) -> bytes:
        phases.mark("result")
        return msgspec.json.encode({"cniVersion": request.version, "supportedVersions": protocol.VERSIONS})

    def _attach(self, attachment: Attachment, sandbox: Sandbox) -> None:
        (self._macvlan if attachment.mode == "macvlan" else self._move).attach(attachment, sandbox)
        self._inject(attachment, sandbox)

    def _inject(self, attachment: Attachment, sandbox: Sandbox) -> None:
        if self._kubelet is not None and any(port.device for port in attachment.ports):
            files = rdma.files(attachment.ports, sandbox.fd)
            cdi.write(self._kubelet.cdi, attachment, files, _MANAGER)

    def _detach(self, attachment: Attachment, sandbox: Sandbox | None) -> None:
        if self._kubelet is not None:
            cdi.remove(self._kubelet.cdi, attachment.key)
        alone = not self._store.sharing(attachment)
        (self._macvlan if attachment.mode == "macvlan" else self._move).detach(attachment, sandbox, alone=alone)

    def _undo(self, attachment: Attachment, sandbox: Sandbox) -> None:
        """Undo a failed ADD. If even that fails it stays on record, so that DEL or the next start tries again."""
        try:
            self._detach(attachment, sandbox)
        except (StepsRefusedError, NetlinkError, OSError) as error:
            _log.warning("%s could not be undone, a DEL will try again: %s", attachment, error)
            return
        self._store.release(attachment.key)

    def _remove(self, attachment: Attachment, also: str = "") -> None:
        """Take an attachment away; `also` is another path its namespace may have."""
        with known((attachment.netns, also), attachment.inode) as sandbox:
            self._detach(attachment, sandbox)
        self._store.release(attachment.key)

    def _remove_unknown(self, netns: str) -> None:
        try:
            with opened(netns) as sandbox:
                self._cleared(sandbox)
        except CniError:
            return  # the namespace is gone or never was, and so is all that could have been in it

    def _cleared(self, sandbox: Sandbox) -> bool:
        """Whether there was something of ours in a pod that has no attachment on record; it is removed."""
        if any(entry.attachment.inode == sandbox.inode for entry in self._store.entries()):
            return False
        return leftovers.clear(self._node, sandbox, self._home)

    def _settle(self, entry: Entry) -> None:
        attachment = entry.attachment
        if attachment.boot != self._boot:
            self._store.release(attachment.key)
            return
        with known((attachment.netns,), attachment.inode) as sandbox:
            look = pod.look(attachment, self._node.common, sandbox) if sandbox else pod.Look(0, ("gone",))
            whole = not look.differences
            if whole and not entry.done:
                self._store.done(attachment.key)
            if whole and sandbox is not None:
                self._inject(attachment, sandbox)  # a container that starts again needs what may have been lost
            if not survives(entry, whole=whole, present=look.interfaces > 0):
                self._detach(attachment, sandbox)
                self._store.release(attachment.key)


def _addresses(attachment: Attachment, rails: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    for port in attachment.ports:
        if port.rail in rails:
            yield from ((own.addressed.version, own.addressed.address) for own in port.addresses)


def _refused(error: StepsRefusedError) -> CniError:
    """A refusal by the kernel; an interface that is in the pod already has a code of its own."""
    doubled = [str(r) for r in error.refusals if r.errno == THERE and r.step.what.startswith(("create ", "move port "))]
    if not doubled:
        return CniError(Code.KERNEL, str(error), _UNDONE)
    advice = f"{_UNDONE}; delete the pod, and see that no other network of it asks for this interface name"
    return CniError(Code.EXISTS, "; ".join(doubled), advice)


@contextmanager
def _told() -> Iterator[None]:
    """Tell every foreseen failure in the runtime's words."""
    try:
        yield
    except (ExhaustedError, TakenError) as error:
        raise CniError(Code.EXHAUSTED, str(error), "`trackbed agent status` lists who holds what") from error
    except JournalError as error:
        raise CniError(Code.JOURNAL, str(error), _UNDONE) from error
    except StepsRefusedError as error:
        raise _refused(error) from error
    except NetlinkError as error:
        raise CniError(Code.KERNEL, str(error), _UNDONE) from error
    except OSError as error:
        raise CniError(Code.KERNEL, f"{error.filename or 'the kernel'}: {error.strerror or error}", _UNDONE) from error
