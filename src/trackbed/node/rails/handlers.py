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

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from trackbed.fabric.plan.plan import NodePlan
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.node.rails import pod, protocol
from trackbed.node.rails.attacher import UNDONE, Attacher
from trackbed.node.rails.batch import THERE, StepsRefusedError
from trackbed.node.rails.conflicts import Conflicts
from trackbed.node.rails.errors import CniError, Code
from trackbed.node.rails.journal import JournalError
from trackbed.node.rails.phases import Phases
from trackbed.node.rails.protocol import Request
from trackbed.node.rails.result import result
from trackbed.node.rails.sandbox import opened
from trackbed.node.rails.store import ExhaustedError, Store, TakenError
from trackbed.node.rails.turns import Turns

DevicesOf = Callable[[str, str], dict[int, str]]
"""The device of each rail that a pod was given, by namespace and name."""


_TURN_SECONDS = 30.0


class Handlers:
    """The commands, for one node."""

    def __init__(
        self,
        node: NodePlan,
        store: Store,
        conflicts: Conflicts,
        attacher: Attacher,
        devices_of: DevicesOf | None = None,
    ) -> None:
        """`devices_of`: None where there is no kubelet; then every pod gets all rails."""
        self._node = node
        self._store = store
        self._conflicts = conflicts
        self._attacher = attacher
        self._devices_of = devices_of
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
        return self._attacher.moved

    def call(self, request: Request, phases: Phases) -> bytes:
        """Do what a request asks for and return what to print; CniError if it failed."""
        with _told():
            return self._commands[request.command](request, phases)

    def _add(self, request: Request, phases: Phases) -> bytes:
        mode, rails = self._asked(request)
        phases.mark("asked")
        if not rails:
            return msgspec.json.encode({**(request.previous or {}), "cniVersion": request.version})
        with self._turns.of(request.key), opened(request.netns) as sandbox:
            phases.mark("open")
            attachment = self._attacher.again(request.key, mode, rails, sandbox)
            phases.mark("known")
            attachment = attachment or self._attacher.anew(request, mode, rails, sandbox, phases)
        told = msgspec.json.encode(result(request.version, attachment, self._node.common, request.previous))
        phases.mark("result")
        return told

    def _asked(self, request: Request) -> tuple[str, dict[int, str]]:
        """Mode and rails of an ADD, each rail with the device that the kubelet gave ("" for none)."""
        mode, rails = protocol.wanted(request.config)
        have = tuple(port.rail for port in self._node.ports)
        if rails is None and request.pod is not None and self._devices_of is not None:
            given = self._devices_of(*request.pod)
        else:
            given = dict.fromkeys(have if rails is None else rails, "")
        for rail in given:
            if rail not in have:
                listed = ", ".join(map(str, have))
                raise CniError(Code.CONFIG, f"rails names {rail}, but node {self._node.name} has rails {listed}")
        return mode or self._node.common.pod_mode, given

    def _delete(self, request: Request, phases: Phases) -> bytes:
        with self._turns.of(request.key):
            entry = self._store.get(request.key)
            if entry is not None:
                self._attacher.remove(entry.attachment, request.netns)
            elif request.netns:
                self._attacher.remove_unknown(request.netns)
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
                    self._attacher.remove(attachment)
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


def _refused(error: StepsRefusedError) -> CniError:
    """A refusal by the kernel; an interface that is in the pod already has a code of its own."""
    doubled = [str(r) for r in error.refusals if r.errno == THERE and r.step.what.startswith(("create ", "move port "))]
    if not doubled:
        return CniError(Code.KERNEL, str(error), UNDONE)
    advice = f"{UNDONE}; delete the pod, and see that no other network of it asks for this interface name"
    return CniError(Code.EXISTS, "; ".join(doubled), advice)


@contextmanager
def _told() -> Iterator[None]:
    """Tell every foreseen failure in the runtime's words."""
    try:
        yield
    except (ExhaustedError, TakenError) as error:
        raise CniError(Code.EXHAUSTED, str(error), "`trackbed agent status` lists who holds what") from error
    except JournalError as error:
        raise CniError(Code.JOURNAL, str(error), UNDONE) from error
    except StepsRefusedError as error:
        raise _refused(error) from error
    except NetlinkError as error:
        raise CniError(Code.KERNEL, str(error), UNDONE) from error
    except OSError as error:
        raise CniError(Code.KERNEL, f"{error.filename or 'the kernel'}: {error.strerror or error}", UNDONE) from error
