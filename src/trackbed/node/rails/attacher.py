"""Attachment of rails to pods and their removal, with record and kernel kept consistent.

create       record the held rails -> kernel -> record the completion    on failure: undo, then raise
remove       kernel -> record the removal                                idempotent
reconcile    at start: settle attachments whose record and kernel state differ
"""

import errno
import logging
import os
from functools import partial
from pathlib import Path

from trackbed.fabric.plan.plan import NodePlan
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.node.rails import cdi, choice, leftovers, pod, rdma
from trackbed.node.rails.attachment import Attachment, Key
from trackbed.node.rails.batch import StepsRefusedError
from trackbed.node.rails.errors import CniError, Code
from trackbed.node.rails.journal import JournalError
from trackbed.node.rails.macvlan import Macvlan
from trackbed.node.rails.move import Move
from trackbed.node.rails.phases import Phases
from trackbed.node.rails.protocol import CniRequest
from trackbed.node.rails.sandbox import OWN_NETNS, Sandbox, find_sandbox, open_sandbox
from trackbed.node.rails.store import Store, StoreEntry, is_kept

_log = logging.getLogger(__name__)

UNDONE = "everything was undone"
_TRIES = 16
_RDMA_CM = Path("/dev/infiniband/rdma_cm")


class Attacher:
    """Creates, repairs and removes the attachments of one node. The caller serializes the calls for each pod."""

    def __init__(self, node: NodePlan, store: Store, boot: str, cdi_folder: Path | None) -> None:
        """`cdi_folder`: the runtime's folder of CDI specifications; None where there is no kubelet."""
        self._node = node
        self._store = store
        self._boot = boot
        self._cdi = cdi_folder
        self._host_netns = os.open(OWN_NETNS, os.O_RDONLY | os.O_CLOEXEC)
        self._vfs = node.common.vfs
        self._macvlan = Macvlan(node)
        self._move = Move(node, self._host_netns)

    def close(self) -> None:
        """Close the descriptor of the host's network namespace."""
        os.close(self._host_netns)

    @property
    def moved(self) -> list[str]:
        """Ports that have been in a pod since the agent started."""
        return sorted(self._move.moved)

    def restore_late(self) -> None:
        """Restore the devices that returned to the host after their pod had ended."""
        self._move.restore_late()

    def reconcile(self) -> None:
        """Make record and kernel agree. Call it once, before any request. `store` lists the possible differences."""
        for entry in self._store.list_entries():
            try:
                self._settle(entry)
            except (StepsRefusedError, NetlinkError, OSError) as error:
                _log.warning("%s could not be settled, a DEL will try again: %s", entry.attachment, error)
        if self._cdi is not None:
            cdi.remove_stale(self._cdi, {entry.attachment.key for entry in self._store.list_entries()})

    def repair(self, key: Key, mode: str, rails: dict[int, str], sandbox: Sandbox) -> Attachment | None:
        """Return the recorded attachment, set up again where the pod differs from it.

        Returns None without a record. A record of another namespace, mode or set of devices is removed first.
        """
        entry = self._store.get(key)
        if entry is None:
            return None
        attachment = entry.attachment
        request = (sandbox.inode, mode, rails)
        if (attachment.inode, attachment.mode, {port.rail: port.device for port in attachment.ports}) != request:
            self.remove(attachment)
            return None
        intact = not pod.compare(attachment, self._node.common, sandbox).differences
        if intact:
            self._write_cdi(attachment, sandbox)
        else:
            self._detach(attachment, sandbox)
            self._attach(attachment, sandbox)
        if not (intact and entry.done):
            self._store.finish(key)
        return attachment

    def create(
        self, request: CniRequest, mode: str, rails: dict[int, str], sandbox: Sandbox, phases: Phases
    ) -> Attachment:
        """Return a new attachment that is recorded and set up.

        Raises:
            CniError: the rails cannot be held, or no address was accepted in 16 tries.
            StepsRefusedError, JournalError, NetlinkError, OSError: it failed; everything was undone.
        """
        avoid: set[tuple[int, int]] = set()
        for attempt in range(_TRIES):
            try:
                attachment = self._hold(request, mode, rails, sandbox, avoid)
            except CniError:
                if not self._remove_leftovers(sandbox):
                    raise
                continue
            phases.mark("record")
            try:
                self._attach(attachment, sandbox)
                phases.mark("kernel")
                self._store.finish(attachment.key)
                phases.mark("commit")
            except StepsRefusedError as error:
                self._undo(attachment, sandbox)
                in_use = error.list_rails(errno.EADDRINUSE)
                has_leftovers = attempt == 0 and bool(error.list_rails(errno.EEXIST))
                if not in_use and not has_leftovers:
                    raise
                avoid |= {
                    (address.addressed.version, address.addressed.address)
                    for port in attachment.ports
                    if port.rail in in_use
                    for address in port.addresses
                }
                if has_leftovers:
                    self._remove_leftovers(sandbox)
            except (JournalError, NetlinkError, CniError, OSError):
                self._undo(attachment, sandbox)
                raise
            else:
                return attachment
        raise CniError(Code.EXHAUSTED, f"the kernel refused {_TRIES} addresses in a row as already in use", UNDONE)

    def _hold(
        self, request: CniRequest, mode: str, rails: dict[int, str], sandbox: Sandbox, avoid: set[tuple[int, int]]
    ) -> Attachment:
        head = (*request.key, request.network, mode, request.netns, sandbox.inode, self._boot)
        name = "/".join(request.pod) if request.pod else ""
        if mode != "macvlan":
            choose = (
                partial(choice.choose_ports, rails) if mode == "move" else partial(choice.choose_vfs, rails, self._vfs)
            )
            return self._store.hold_devices(
                choose, lambda chosen: Attachment(*head, self._move.build_ports(chosen, rails), name)
            )
        return self._store.hold_addresses(
            self._macvlan.select_blocks(rails),
            avoid,
            lambda chosen: Attachment(*head, self._macvlan.build_ports(chosen, request.key, rails), name),
        )

    def _attach(self, attachment: Attachment, sandbox: Sandbox) -> None:
        (self._macvlan if attachment.mode == "macvlan" else self._move).attach(attachment, sandbox)
        self._write_cdi(attachment, sandbox)

    def _write_cdi(self, attachment: Attachment, sandbox: Sandbox) -> None:
        if self._cdi is not None and any(port.device for port in attachment.ports):
            verbs = rdma.list_verbs_devices(attachment.ports, sandbox.fd)
            cdi.write_specification(self._cdi, attachment, verbs, _RDMA_CM)

    def _detach(self, attachment: Attachment, sandbox: Sandbox | None) -> None:
        if self._cdi is not None:
            cdi.remove_specification(self._cdi, attachment.key)
        alone = not self._store.shares_namespace(attachment)
        (self._macvlan if attachment.mode == "macvlan" else self._move).detach(attachment, sandbox, alone=alone)

    def _undo(self, attachment: Attachment, sandbox: Sandbox) -> None:
        """Undo a failed ADD. If that fails too, the record is kept so that DEL or the next start tries again."""
        try:
            self._detach(attachment, sandbox)
        except (StepsRefusedError, NetlinkError, OSError) as error:
            _log.warning("%s could not be undone, a DEL will try again: %s", attachment, error)
            return
        self._store.release(attachment.key)

    def remove(self, attachment: Attachment, netns: str = "") -> None:
        """Remove an attachment; `netns` is a second path where its namespace may be found."""
        with find_sandbox((attachment.netns, netns), attachment.inode) as sandbox:
            self._detach(attachment, sandbox)
        self._store.release(attachment.key)

    def remove_unknown(self, netns: str) -> None:
        """Remove interfaces that an attachment without a record left in a pod."""
        try:
            with open_sandbox(netns) as sandbox:
                self._remove_leftovers(sandbox)
        except CniError:
            return  # the namespace does not exist, so it holds no leftovers

    def _remove_leftovers(self, sandbox: Sandbox) -> bool:
        """Remove leftovers from a pod without a recorded attachment; return whether there were any."""
        if any(entry.attachment.inode == sandbox.inode for entry in self._store.list_entries()):
            return False
        return leftovers.remove_leftovers(self._node, sandbox, self._host_netns)

    def _settle(self, entry: StoreEntry) -> None:
        attachment = entry.attachment
        if attachment.boot != self._boot:
            self._store.release(attachment.key)
            return
        with find_sandbox((attachment.netns,), attachment.inode) as sandbox:
            comparison = (
                pod.compare(attachment, self._node.common, sandbox) if sandbox else pod.PodComparison(0, ("gone",))
            )
            intact = not comparison.differences
            if intact and not entry.done:
                self._store.finish(attachment.key)
            if intact and sandbox is not None:
                self._write_cdi(attachment, sandbox)  # a container that restarts needs the specification
            if not is_kept(entry, intact=intact, present=comparison.interfaces > 0):
                self._detach(attachment, sandbox)
                self._store.release(attachment.key)
