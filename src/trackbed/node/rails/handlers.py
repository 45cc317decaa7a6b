"""Handlers of the CNI commands: ADD, DEL, CHECK, GC, STATUS, VERSION (CNI specification 1.1, section 2).

    ADD     record the held rails -> kernel -> record the completion -> result    on failure: undo, then report
    DEL     kernel -> record the removal                                          idempotent
    CHECK   compare the kernel with the record; report detected address conflicts
    GC      DEL for every attachment of the network that is not in the runtime's list of valid attachments
    STATUS  fails while no ADD could be recorded. A full rail or a missing port fails only the ADD that needs it: a
            failed STATUS makes the whole node unready, for pods without rails too.

A repeated ADD returns the same result and changes nothing. If the pod differs from its attachment it is set up again.
"""

import errno
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import WeakValueDictionary

import msgspec

from trackbed.fabric.plan.plan import NodePlan
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.node.rails import pod, protocol
from trackbed.node.rails.attacher import UNDONE, Attacher
from trackbed.node.rails.attachment import Key
from trackbed.node.rails.batch import StepsRefusedError
from trackbed.node.rails.conflicts import Conflicts
from trackbed.node.rails.errors import CniError, Code
from trackbed.node.rails.journal import JournalError
from trackbed.node.rails.phases import Phases
from trackbed.node.rails.protocol import CniRequest
from trackbed.node.rails.result import build_result
from trackbed.node.rails.sandbox import open_sandbox
from trackbed.node.rails.store import ExhaustedError, Store, TakenError

ReadDevices = Callable[[str, str], dict[int, str]]
"""Takes the namespace and name of a pod, and returns the ids of its devices, allocated by the kubelet, by rail."""

_LOCK_SECONDS = 30.0
"""Maximum time that a call waits for another call for the same attachment."""


class Handlers:
    """Handles the CNI commands on one node. Calls for one attachment run one after another, others in parallel."""

    def __init__(
        self,
        node: NodePlan,
        store: Store,
        conflicts: Conflicts,
        attacher: Attacher,
        read_devices: ReadDevices | None = None,
    ) -> None:
        """`read_devices`: None without a kubelet; every pod gets all rails then."""
        self._node = node
        self._store = store
        self._conflicts = conflicts
        self.attacher = attacher
        self._read_devices = read_devices
        self._guard = threading.Lock()
        self._locks: WeakValueDictionary[Key, threading.Lock] = WeakValueDictionary()
        self._commands: dict[str, Callable[[CniRequest, Phases], bytes]] = {
            "ADD": self._handle_add,
            "DEL": self._handle_del,
            "CHECK": self._handle_check,
            "GC": self._handle_gc,
            "STATUS": self._handle_status,
            "VERSION": self._handle_version,
        }

    def handle(self, request: CniRequest, phases: Phases) -> bytes:
        """Run the CNI command of a request and return the text to print. Raises CniError."""
        with as_cni_errors():
            return self._commands[request.command](request, phases)

    def _handle_add(self, request: CniRequest, phases: Phases) -> bytes:
        mode, rails = self._resolve_rails(request)
        phases.mark("asked")
        if not rails:
            return msgspec.json.encode({**(request.previous_result or {}), "cniVersion": request.cni_version})
        with self._lock_attachment(request.key), open_sandbox(request.netns) as sandbox:
            phases.mark("open")
            attachment = self.attacher.repair(request.key, mode, rails, sandbox)
            phases.mark("known")
            attachment = attachment or self.attacher.create(request, mode, rails, sandbox, phases)
        result = msgspec.json.encode(
            build_result(request.cni_version, attachment, self._node.common, request.previous_result)
        )
        phases.mark("result")
        return result

    @contextmanager
    def _lock_attachment(self, key: Key) -> Iterator[None]:
        """Hold the lock of `key`. Raises CniError (TRY_AGAIN) if another call still holds it after _LOCK_SECONDS."""
        with self._guard:
            lock = self._locks.setdefault(key, threading.Lock())
        if not lock.acquire(timeout=_LOCK_SECONDS):
            message = f"another call for {key[0]}/{key[1]} has been running for {_LOCK_SECONDS:.0f} seconds"
            raise CniError(Code.TRY_AGAIN, message)
        try:
            yield
        finally:
            lock.release()

    def _resolve_rails(self, request: CniRequest) -> tuple[str, dict[int, str]]:
        """Return the mode of an ADD, and the id of the kubelet's device on each of its rails ("" for none)."""
        mode, rails = protocol.parse_rail_request(request.config)
        available = tuple(port.rail for port in self._node.ports)
        if rails is None and request.pod is not None and self._read_devices is not None:
            devices = self._read_devices(*request.pod)
        else:
            devices = dict.fromkeys(available if rails is None else rails, "")
        for rail in devices:
            if rail not in available:
                listed = ", ".join(map(str, available))
                raise CniError(Code.CONFIG, f"rails names {rail}, but node {self._node.name} has rails {listed}")
        return mode or self._node.common.pod_mode, devices

    def _handle_del(self, request: CniRequest, phases: Phases) -> bytes:
        with self._lock_attachment(request.key):
            entry = self._store.get(request.key)
            if entry is not None:
                self.attacher.remove(entry.attachment, request.netns)
            elif request.netns:
                self.attacher.remove_unrecorded_leftovers(request.netns)
            phases.mark("kernel")
        self._conflicts.forget_conflicts(request.key)
        return b""

    def _handle_check(self, request: CniRequest, phases: Phases) -> bytes:
        if request.previous_result is None:
            raise CniError(Code.CONFIG, "CHECK needs prevResult, the result of the ADD")
        entry = self._store.get(request.key)
        if entry is None:
            if not self._resolve_rails(request)[1]:
                return b""
            raise CniError(Code.DIFFERS, f"no rails are attached to {request.key[0]}/{request.key[1]}")
        attachment = entry.attachment
        with open_sandbox(request.netns) as sandbox:
            differences = [*pod.compare(attachment, self._node.common, sandbox).differences]
        listed = {str(address.get("address")) for address in request.previous_result.get("ips") or []}
        differences += [
            f"rail {port.rail}: prevResult lacks {address.text}"
            for port in attachment.ports
            for address in port.addresses
            if address.text not in listed
        ]
        differences += self._conflicts.describe_conflicts(request.key)
        phases.mark("kernel")
        if differences:
            raise CniError(Code.DIFFERS, "; ".join(differences), "DEL and ADD the pod again to set it up anew")
        return b""

    def _handle_gc(self, request: CniRequest, phases: Phases) -> bytes:
        valid = protocol.parse_valid_attachments(request.config)
        if valid is None:
            return b""
        failures = []
        for entry in self._store.list_entries():
            attachment = entry.attachment
            if attachment.network != request.network or attachment.key in valid or not entry.done:
                continue
            try:
                with self._lock_attachment(attachment.key):
                    if self._store.get(attachment.key) == entry:  # a DEL may have removed the attachment meanwhile
                        self.attacher.remove(attachment)
                self._conflicts.forget_conflicts(attachment.key)
            except (StepsRefusedError, NetlinkError, CniError, OSError) as error:
                failures.append(f"{attachment}: {error}")
        phases.mark("kernel")
        if failures:
            raise CniError(Code.KERNEL, "; ".join(failures), "the others were removed")
        return b""

    def _handle_status(self, _: CniRequest, phases: Phases) -> bytes:
        trouble = self._store.check_journal()
        phases.mark("record")
        if trouble:
            raise CniError(Code.NOT_AVAILABLE, trouble, "no pod can get rails until then; DEL works")
        return b""

    def _handle_version(self, request: CniRequest, phases: Phases) -> bytes:
        phases.mark("result")
        return msgspec.json.encode({"cniVersion": request.cni_version, "supportedVersions": protocol.VERSIONS})


def _to_cni_error(error: StepsRefusedError) -> CniError:
    """Return the CniError for refused steps; an interface that already exists in the pod has its own code."""
    existing = [
        str(refusal) for refusal in error.refusals if refusal.errno == errno.EEXIST and refusal.step.names_interface
    ]
    if not existing:
        return CniError(Code.KERNEL, str(error), UNDONE)
    advice = f"{UNDONE}; delete the pod, and see that no other network of it asks for this interface name"
    return CniError(Code.EXISTS, "; ".join(existing), advice)


@contextmanager
def as_cni_errors() -> Iterator[None]:
    """Translate every expected exception into a CniError."""
    try:
        yield
    except (ExhaustedError, TakenError) as error:
        raise CniError(Code.EXHAUSTED, str(error), "`trackbed agent status` lists who holds what") from error
    except JournalError as error:
        raise CniError(Code.JOURNAL, str(error), UNDONE) from error
    except StepsRefusedError as error:
        raise _to_cni_error(error) from error
    except NetlinkError as error:
        raise CniError(Code.KERNEL, str(error), UNDONE) from error
    except OSError as error:
        raise CniError(Code.KERNEL, f"{error.filename or 'the kernel'}: {error.strerror or error}", UNDONE) from error
