"""Brings rails into pods and takes them away: record and kernel go together, whatever happens in between.

made       record what will be held -> kernel -> record that it is done     any failure: undone, then raised
taken      kernel -> record that it is gone                                 nothing there: fine
settled    after a start: what the record says and the kernel lacks, or the other way round
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from trackbed.fabric.plan.plan import NodePlan
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.node.rails import cdi, choice, leftovers, pod, rdma
from trackbed.node.rails.attachment import Attachment, Key
from trackbed.node.rails.batch import TAKEN, THERE, StepsRefusedError
from trackbed.node.rails.errors import CniError, Code
from trackbed.node.rails.journal import JournalError
from trackbed.node.rails.macvlan import Macvlan
from trackbed.node.rails.move import Move
from trackbed.node.rails.phases import Phases
from trackbed.node.rails.protocol import Request
from trackbed.node.rails.sandbox import OWN, Sandbox, known, opened
from trackbed.node.rails.store import Entry, Store, survives

_log = logging.getLogger(__name__)

UNDONE = "everything was undone"
_TRIES = 16
_MANAGER = Path("/dev/infiniband/rdma_cm")


class Attacher:
    """Makes, repairs and takes away the attachments of one node. One call at a time for each pod."""

    def __init__(self, node: NodePlan, store: Store, boot: str, cdi_folder: Path | None) -> None:
        """`cdi_folder`: where the kubelet's runtime reads CDI specifications; None where there is no kubelet."""
        self._node = node
        self._store = store
        self._boot = boot
        self._cdi = cdi_folder
        self._home = os.open(OWN, os.O_RDONLY | os.O_CLOEXEC)
        self._vfs = node.common.vfs
        self._macvlan = Macvlan(node)
        self._move = Move(node, self._home)

    def close(self) -> None:
        """Attach no more."""
        os.close(self._home)

    @property
    def moved(self) -> list[str]:
        """Ports that have been in a pod since the agent started."""
        return sorted(self._move.moved)

    def welcome(self) -> None:
        """Set up again what came home from a pod after the pod was gone."""
        self._move.welcome()

    def reconcile(self) -> None:
        """Make record and kernel agree; see `store` for what can differ. To be called once, before any request."""
        for entry in self._store.entries():
            try:
                self._settle(entry)
            except (StepsRefusedError, NetlinkError, OSError) as error:
                _log.warning("%s could not be settled, a DEL will try again: %s", entry.attachment, error)
        if self._cdi is not None:
            cdi.keep(self._cdi, {entry.attachment.key for entry in self._store.entries()})

    def again(self, key: Key, mode: str, rails: dict[int, str], sandbox: Sandbox) -> Attachment | None:
        """The attachment if there is one already, set up again if need be; None if one has to be made."""
        entry = self._store.get(key)
        if entry is None:
            return None
        attachment = entry.attachment
        asked = (sandbox.inode, mode, rails)
        if (attachment.inode, attachment.mode, {port.rail: port.device for port in attachment.ports}) != asked:
            self.remove(attachment)
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

    def anew(self, request: Request, mode: str, rails: dict[int, str], sandbox: Sandbox, phases: Phases) -> Attachment:
        """A new attachment, recorded and in the kernel. CniError, StepsRefusedError and others, all undone."""
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
        raise CniError(Code.EXHAUSTED, f"{_TRIES} times in turn the kernel said that a chosen address is taken", UNDONE)

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

    def _attach(self, attachment: Attachment, sandbox: Sandbox) -> None:
        (self._macvlan if attachment.mode == "macvlan" else self._move).attach(attachment, sandbox)
        self._inject(attachment, sandbox)

    def _inject(self, attachment: Attachment, sandbox: Sandbox) -> None:
        if self._cdi is not None and any(port.device for port in attachment.ports):
            files = rdma.files(attachment.ports, sandbox.fd)
            cdi.write(self._cdi, attachment, files, _MANAGER)

    def _detach(self, attachment: Attachment, sandbox: Sandbox | None) -> None:
        if self._cdi is not None:
            cdi.remove(self._cdi, attachment.key)
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

    def remove(self, attachment: Attachment, also: str = "") -> None:
        """Take an attachment away; `also` is another path its namespace may have."""
        with known((attachment.netns, also), attachment.inode) as sandbox:
            self._detach(attachment, sandbox)
        self._store.release(attachment.key)

    def remove_unknown(self, netns: str) -> None:
        """Take away what of ours is in a pod that has no attachment on record."""
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
