"""Handlers of the CNI commands: ADD, DEL, CHECK, GC, STATUS, VERSION (CNI specification 1.1, section 2).

    ADD     record the held rails -> kernel -> record the completion -> result    on failure: undo, then report
    DEL     kernel -> record the removal                                          idempotent
    CHECK   compare the kernel with the record; report detected address conflicts
    GC      DEL for every attachment of the network that the runtime does not list
    STATUS  fails while no ADD could be recorded. A full rail or a missing port fails only the ADD that needs it: a
            failed STATUS makes the whole node unready, for pods without rails too.

A repeated ADD returns the same result and changes nothing. If the pod differs from its attachment it is set up again.
"""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from trackbed.fabric.plan.plan import NodePlan
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.node.rails import pod, protocol
from trackbed.node.rails.attacher import UNDONE, Attacher
from trackbed.node.rails.batch import StepsRefusedError
from trackbed.node.rails.conflicts import Conflicts
from trackbed.node.rails.errors import CniError, Code
from trackbed.node.rails.journal import JournalError
from trackbed.node.rails.phases import Phases
from trackbed.node.rails.protocol import CniRequest
from trackbed.node.rails.result import build_result
from trackbed.node.rails.sandbox import open_sandbox
from trackbed.node.rails.store import ExhaustedError, Store, TakenError
from trackbed.node.rails.turns import Turns

ReadDevices = Callable[[str, str], dict[int, str]]
"""Returns the kubelet's device on each rail of a pod, by namespace and name."""

_TURN_SECONDS = 30.0


class Handlers:
    """The commands, for one node."""

    def __init__(
        self,
        node: NodePlan,
        store: Store,
        conflicts: Conflicts,
        attacher: Attacher,
        read_devices: ReadDevices | None = None,
    ) -> None:
        """`read_devices`: None where there is no kubelet; then every pod gets all rails."""
        self._node = node
        self._store = store
        self._conflicts = conflicts
        self._attacher = attacher
        self._read_devices = read_devices
        self._turns = Turns(_TURN_SECONDS)
        self._commands: dict[str, Callable[[CniRequest, Phases], bytes]] = {
            "ADD": self._add,
            "DEL": self._delete,
            "CHECK": self._check,
            "GC": self._collect_garbage,
            "STATUS": self._check_status,
            "VERSION": self._list_versions,
        }

    @property
    def moved(self) -> list[str]:
        """Ports that have been in a pod since the agent started."""
        return self._attacher.moved

    def handle(self, request: CniRequest, phases: Phases) -> bytes:
        """Run the command of a request and return the text to print. Raises CniError."""
        with _as_cni_errors():
            return self._commands[request.command](request, phases)

    def _add(self, request: CniRequest, phases: Phases) -> bytes:
        mode, rails = self._resolve_rails(request)
        phases.mark("asked")
        if not rails:
            return msgspec.json.encode({**(request.previous or {}), "cniVersion": request.version})
        with self._turns.wait_for(request.key), open_sandbox(request.netns) as sandbox:
            phases.mark("open")
            attachment = self._attacher.repair(request.key, mode, rails, sandbox)
            phases.mark("known")
            attachment = attachment or self._attacher.create(request, mode, rails, sandbox, phases)
        result = msgspec.json.encode(build_result(request.version, attachment, self._node.common, request.previous))
        phases.mark("result")
        return result

    def _resolve_rails(self, request: CniRequest) -> tuple[str, dict[int, str]]:
        """Return the mode and the rails of an ADD, each rail with the kubelet's device ("" for none)."""
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

    def _delete(self, request: CniRequest, phases: Phases) -> bytes:
        with self._turns.wait_for(request.key):
            entry = self._store.get(request.key)
            if entry is not None:
                self._attacher.remove(entry.attachment, request.netns)
            elif request.netns:
                self._attacher.remove_unknown(request.netns)
            phases.mark("kernel")
        self._conflicts.forget(request.key)
        return b""

    def _check(self, request: CniRequest, phases: Phases) -> bytes:
        if request.previous is None:
            raise CniError(Code.CONFIG, "CHECK needs prevResult, the result of the ADD")
        entry = self._store.get(request.key)
        if entry is None:
            if not self._resolve_rails(request)[1]:
                return b""
            raise CniError(Code.DIFFERS, f"no rails are attached to {request.key[0]}/{request.key[1]}")
        attachment = entry.attachment
        with open_sandbox(request.netns) as sandbox:
            differences = [*pod.compare(attachment, self._node.common, sandbox).differences]
        listed = {address.get("address") for address in request.previous.get("ips") or []}
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

    def _collect_garbage(self, request: CniRequest, phases: Phases) -> bytes:
        valid = protocol.parse_valid_attachments(request.config)
        if valid is None:
            return b""
        failures = []
        for entry in self._store.list_entries():
            attachment = entry.attachment
            if attachment.network != request.network or attachment.key in valid or not entry.done:
                continue
            try:
                with self._turns.wait_for(attachment.key):
                    self._attacher.remove(attachment)
            except (StepsRefusedError, NetlinkError, CniError, OSError) as error:
                failures.append(f"{attachment}: {error}")
        phases.mark("kernel")
        if failures:
            raise CniError(Code.KERNEL, "; ".join(failures), "the others were removed")
        return b""

    def _check_status(self, _: CniRequest, phases: Phases) -> bytes:
        trouble = self._store.check_journal()
        phases.mark("record")
        if trouble:
            raise CniError(Code.NOT_AVAILABLE, trouble, "no pod can get rails until then; DEL works")
        return b""

    def _list_versions(self, request: CniRequest, phases: Phases) -> bytes:
        phases.mark("result")
        return msgspec.json.encode({"cniVersion": request.version, "supportedVersions": protocol.VERSIONS})


def _to_cni_error(error: StepsRefusedError) -> CniError:
    """Return the error of a refusal by the kernel; an interface that already exists in the pod has its own code."""
    existing = [
        str(refusal)
        for refusal in error.refusals
        if refusal.errno == errno.EEXIST and refusal.step.action.startswith(("create ", "move port "))
    ]
    if not existing:
        return CniError(Code.KERNEL, str(error), UNDONE)
    advice = f"{UNDONE}; delete the pod, and see that no other network of it asks for this interface name"
    return CniError(Code.EXISTS, "; ".join(existing), advice)


@contextmanager
def _as_cni_errors() -> Iterator[None]:
    """Translate every foreseen failure into a CniError."""
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
