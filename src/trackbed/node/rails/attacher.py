"""Attachment of rails to pods and their removal, with record and kernel kept consistent.

create       record the held rails -> kernel -> record the completion    on failure: undo, then raise
remove       kernel -> record the removal                                idempotent
reconcile    at start: keep or remove attachments whose record and kernel state differ
"""

import errno
import logging
import os
from contextlib import suppress
from functools import partial
from pathlib import Path

from trackbed.fabric.plan.plan import NodePlan
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.node.rails import cdi, choice, leftovers, pod, rdma
from trackbed.node.rails.attachment import Attachment, Key, PodPort
from trackbed.node.rails.batch import StepsRefusedError
from trackbed.node.rails.errors import CniError, Code
from trackbed.node.rails.journal import JournalError
from trackbed.node.rails.ledger import Ledger
from trackbed.node.rails.macvlan import Macvlan
from trackbed.node.rails.move import Move
from trackbed.node.rails.phases import Phases
from trackbed.node.rails.protocol import CniRequest
from trackbed.node.rails.sandbox import OWN_NETNS, Sandbox, find_sandbox, open_sandbox
from trackbed.node.rails.store import Store, StoreEntry, is_kept, refuse_used_ports

_log = logging.getLogger(__name__)

UNDONE = "everything was undone"
_TRIES = 16


class Attacher:
    """Creates, repairs and removes the attachments of one node. The caller serializes the calls for each pod."""

    def __init__(self, node: NodePlan, store: Store, boot_id: str, cdi_folder: Path | None) -> None:
        """`cdi_folder`: the runtime's folder of CDI specifications; None without a kubelet."""
        self._node = node
        self._store = store
        self._boot_id = boot_id
        self._cdi = cdi_folder
        self._host_netns = os.open(OWN_NETNS, os.O_RDONLY | os.O_CLOEXEC)
        self._macvlan = Macvlan(node, self._host_netns)
        self._move = Move(node, self._host_netns, Ledger(store.folder / "ports", boot_id), self._list_pod_ports)

    def close(self) -> None:
        """Close the descriptor of the host's network namespace."""
        os.close(self._host_netns)

    def _list_pod_ports(self) -> list[PodPort]:
        """Return the recorded ports of all pods."""
        return [port for entry in self._store.list_entries() for port in entry.attachment.ports]

    @property
    def moved_ports(self) -> list[str]:
        """Ports that have been in a pod since the agent started."""
        return sorted(self._move.moved_ports)

    def restore_returned_devices(self) -> None:
        """Restore the host state of devices that have returned to the host since their pod ended."""
        self._move.restore_returned_devices()

    def reconcile(self) -> None:
        """Keep or remove attachments whose record and kernel state differ (see `store`).

        Call it once, before any request.
        """
        for entry in self._store.list_entries():
            try:
                self._settle_entry(entry)
            except (StepsRefusedError, NetlinkError, OSError) as error:
                _log.warning("%s could not be settled, a DEL will try again: %s", entry.attachment, error)
        self._move.note_ports()
        self._move.restore_returned_devices()
        if self._cdi is not None:
            cdi.remove_stale_specifications(self._cdi, {entry.attachment.key for entry in self._store.list_entries()})

    def repair(self, key: Key, mode: str, rails: dict[int, str], sandbox: Sandbox) -> Attachment | None:
        """Set up the recorded attachment again if the pod differs from it, and return it; None if there is no record.

        An attachment recorded for another namespace, mode or set of devices is removed; then too, None is returned.
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
            self._write_cdi_specification(attachment, sandbox)
        else:
            self._detach_rails(attachment, sandbox)
            self._attach_rails(attachment, sandbox)
        if not (intact and entry.done):
            self._store.mark_done(key)
        return attachment

    def create(
        self, request: CniRequest, mode: str, rails: dict[int, str], sandbox: Sandbox, phases: Phases
    ) -> Attachment:
        """Record a new attachment, set it up in the pod, and return it.

        Raises:
            ExhaustedError, TakenError: a rail has no free address or device.
            CniError: a device is not on the host, or the kernel refused 16 addresses as already in use.
            StepsRefusedError, JournalError, NetlinkError, OSError: the setup failed; everything was undone.
        """
        avoid: set[tuple[int, int]] = set()
        for attempt in range(_TRIES):
            try:
                attachment = self._hold_rails(request, mode, rails, sandbox, avoid)
            except CniError:
                if not self._remove_leftovers(sandbox):
                    raise
                continue
            phases.mark("record")
            try:
                self._attach_rails(attachment, sandbox)
                phases.mark("kernel")
                self._store.mark_done(attachment.key)
                phases.mark("commit")
            except StepsRefusedError as error:
                self._undo_add(attachment, sandbox)
                in_use = error.list_rails(errno.EADDRINUSE)
                has_leftovers = attempt == 0 and bool(error.list_rails(errno.EEXIST))
                if not in_use and not has_leftovers:
                    raise
                avoid |= {
                    (address.plan.version, address.plan.address)
                    for port in attachment.ports
                    if port.rail in in_use
                    for address in port.addresses
                }
                if has_leftovers:
                    self._remove_leftovers(sandbox)
            except (JournalError, NetlinkError, CniError, OSError):
                self._undo_add(attachment, sandbox)
                raise
            else:
                return attachment
        raise CniError(Code.EXHAUSTED, f"the kernel refused {_TRIES} addresses in a row as already in use", UNDONE)

    def _hold_rails(
        self, request: CniRequest, mode: str, rails: dict[int, str], sandbox: Sandbox, avoid: set[tuple[int, int]]
    ) -> Attachment:
        """Choose addresses or devices for a new attachment, and record it as held."""
        head = (*request.key, request.network, mode, request.netns, sandbox.inode, self._boot_id)
        name = "/".join(request.pod) if request.pod else ""
        if mode != "macvlan":
            choose = (
                partial(choice.choose_ports, rails)
                if mode == "move"
                else partial(choice.choose_vfs, rails, self._node.common.vfs)
            )
            return self._store.hold_devices(
                Attachment(*head, (), name), choose, lambda chosen: self._move.build_ports(chosen, rails)
            )
        # Another device may have the name of a port in a pod: no macvlan may be on that.
        refuse_used_ports(rails, self._store.map_moved_devices())
        self._move.check_returned(rails)
        rdma_devices = self._macvlan.find_rdma_devices(rails)
        return self._store.hold_addresses(
            {port.rail: port.addresses for port in self._node.ports if port.rail in rails},
            avoid,
            lambda chosen: Attachment(*head, self._macvlan.build_ports(chosen, request.key, rails, rdma_devices), name),
        )

    def _attach_rails(self, attachment: Attachment, sandbox: Sandbox) -> None:
        """Set up a recorded attachment in its pod, and write its CDI specification."""
        (self._macvlan if attachment.mode == "macvlan" else self._move).attach(attachment, sandbox)
        self._write_cdi_specification(attachment, sandbox)

    def _write_cdi_specification(self, attachment: Attachment, sandbox: Sandbox) -> None:
        if self._cdi is not None and any(port.device for port in attachment.ports):
            verbs = rdma.map_verbs_devices(attachment.ports, sandbox.fd)
            cdi.write_specification(self._cdi, attachment, verbs, rdma.RDMA_CM)

    def _detach_rails(self, attachment: Attachment, sandbox: Sandbox | None) -> None:
        """Remove an attachment from its pod, if that still exists, and remove its CDI specification."""
        if self._cdi is not None:
            cdi.remove_specification(self._cdi, attachment.key)
        alone = not self._store.shares_namespace(attachment)
        (self._macvlan if attachment.mode == "macvlan" else self._move).detach(attachment, sandbox, alone=alone)

    def _undo_add(self, attachment: Attachment, sandbox: Sandbox) -> None:
        """Undo a failed ADD. If the undo fails too, the record is kept, so that DEL or the next start tries again."""
        try:
            self._detach_rails(attachment, sandbox)
        except (StepsRefusedError, NetlinkError, OSError) as error:
            _log.warning("%s could not be undone, a DEL will try again: %s", attachment, error)
            return
        self._store.release(attachment.key)

    def remove(self, attachment: Attachment, netns_path: str = "") -> None:
        """Remove an attachment. `netns_path` is another path at which its network namespace may be found."""
        with find_sandbox((attachment.netns, netns_path), attachment.inode) as sandbox:
            self._detach_rails(attachment, sandbox)
        self._store.release(attachment.key)

    def remove_unrecorded_leftovers(self, netns_path: str) -> None:
        """Remove interfaces, rules and routes that an unrecorded attachment left in the namespace at a path."""
        with (
            suppress(CniError),
            open_sandbox(netns_path) as sandbox,
        ):  # a namespace that does not exist has no leftovers
            self._remove_leftovers(sandbox)

    def _remove_leftovers(self, sandbox: Sandbox) -> bool:
        """Remove leftovers from a pod that has no recorded attachment; return whether there were any."""
        if any(entry.attachment.inode == sandbox.inode for entry in self._store.list_entries()):
            return False
        had_macvlans = leftovers.remove_macvlans(sandbox)
        had_ports = self._move.return_unrecorded(sandbox)
        if had_macvlans or had_ports:
            leftovers.remove_settings(self._node, sandbox)
        return had_macvlans or had_ports

    def _settle_entry(self, entry: StoreEntry) -> None:
        """Keep the attachment if the kernel has it, or else remove it and release its record."""
        attachment = entry.attachment
        if attachment.boot != self._boot_id:
            self._store.release(attachment.key)
            return
        with find_sandbox((attachment.netns,), attachment.inode) as sandbox:
            comparison = (
                pod.compare(attachment, self._node.common, sandbox) if sandbox else pod.PodComparison(0, ("gone",))
            )
            intact = not comparison.differences
            if intact and not entry.done:
                self._store.mark_done(attachment.key)
            if intact and sandbox is not None:
                self._write_cdi_specification(attachment, sandbox)  # a container that restarts needs the specification
            if not is_kept(entry, intact=intact, present=comparison.interface_count > 0):
                self._detach_rails(attachment, sandbox)
                self._store.release(attachment.key)
