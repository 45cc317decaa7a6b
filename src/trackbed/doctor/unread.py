"""Inputs that could not be read: no check that met one passes, and each is named by an unknown finding.

A check reads through the mappings of its view, so a record of what it asked for shows which inputs it lacked:

    of the host     a file, link or folder that the kernel refused, a program that did not answer
    of the network  a netlink dump that failed
    the agent       its status

A finding made before a check met such an input did not need it. Every later pass of the same module may have, and is
withdrawn. A fault is withdrawn too where a missing path or dump may be all that it shows: if a path was met since the
finding before, or a dump at any time before. A program that does not answer shows no fault.
"""

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import msgspec

from trackbed.doctor.finding import BROKEN, Finding
from trackbed.doctor.unjudged import UNREADABLE
from trackbed.doctor.view import AGENT, STATE_DUMPS, NodeView
from trackbed.host.machine import Absent
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.snapshot import Snapshot, is_above

_NOTHING_TO_READ = tuple(
    os.strerror(number)
    for number in (errno.EINVAL, errno.ENODATA, errno.ENODEV, errno.ENXIO, errno.EOPNOTSUPP, errno.ESRCH)
)
"""How sysfs, procfs and programs say that a device or a process has no such value: a port without carrier has no speed.

Programs run in the C locale, so they print the same texts.
"""
_NO_ANSWER = frozenset({124, 126, 127})
"""Exit statuses of a program that did not end in time, could not be started, or was not recorded in an archive."""

_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(slots=True)
class _Encounters:
    """The unread inputs that a module's checks have asked for -> the reason, in order."""

    met: dict[str, str] = field(default_factory=dict)
    fresh_paths: dict[str, str] = field(default_factory=dict)
    """Files, links, folders and queries of one port met since the last finding."""
    dumps: dict[str, str] = field(default_factory=dict)

    def add_path(self, path: str, reason: str) -> None:
        self.met[path] = self.fresh_paths[path] = reason

    def add_program(self, argv: tuple[str, ...], reason: str) -> None:
        self.met[" ".join(argv)] = reason

    def add_dump(self, name: str, reason: str) -> None:
        self.met[name] = self.dumps[name] = reason


class _Watched(Mapping[_K, _V]):
    """A mapping that reports each unread key that it is asked for."""

    def __init__(
        self, values: Mapping[_K, _V], find_reason: Callable[[_K], str | None], report: Callable[[_K, str], None]
    ) -> None:
        self._values, self._find_reason, self._report = values, find_reason, report

    def __getitem__(self, key: _K) -> _V:
        value = self._values.get(key)
        if value is None or isinstance(value, ProgramResult):
            reason = self._find_reason(key)
            if reason is not None:
                self._report(key, reason)
        return self._values[key]

    def __iter__(self) -> Iterator[_K]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


@dataclass(frozen=True)
class _WatchedSnapshot(Snapshot):
    """A snapshot that reports unread inputs also where a pattern needs a folder, or a check a program's success."""

    encounters: _Encounters = field(default_factory=_Encounters)

    def glob(self, *patterns: str) -> list[str]:
        for path, reason in self.unreadable.items():
            if reason not in _NOTHING_TO_READ and any(is_above(path, pattern) for pattern in patterns):
                self.encounters.add_path(path, reason)
        return super().glob(*patterns)

    def get_output(self, *argv: str) -> str | None:
        outcome = self.get_outcome(*argv)
        if not isinstance(outcome, Absent) and outcome.status and not _is_nothing_to_read(outcome.output):
            self.encounters.add_program(argv, _describe_failure(outcome))
        return super().get_output(*argv)


class _LostDump(tuple[_V, ...]):  # noqa: SLOT001 - it has an attribute
    """An empty listing in place of one that was not read; it reports each use."""

    report: Callable[[], None]

    def __iter__(self) -> Iterator[_V]:
        self.report()
        return super().__iter__()

    def __len__(self) -> int:
        self.report()
        return 0

    def __contains__(self, item: object) -> bool:
        self.report()
        return False


def judge_unread(check: Callable[[NodeView], Iterator[Finding]], view: NodeView, step: str) -> Iterator[Finding]:
    """Run a check, and replace by unknown each finding that may follow from an input that was not read."""
    encounters, named = _Encounters(), 0
    for finding in check(_watch_view(view, encounters)):
        reasons = _find_reasons(finding, encounters)
        encounters.fresh_paths.clear()
        if not reasons:
            yield finding
            continue
        named = len(encounters.met)
        evidence = _format_reasons(reasons)
        if finding.verdict != "pass" and finding.evidence:
            evidence += f"; without that: {finding.evidence}"
        yield msgspec.structs.replace(finding, verdict="unknown", evidence=evidence, cause="", fix="")
    if len(encounters.met) > named:
        yield _build_unread_finding(view, step, dict(list(encounters.met.items())[named:]))


def _find_reasons(finding: Finding, encounters: _Encounters) -> dict[str, str]:
    """Return the unread inputs for which a finding is withdrawn; empty if it is kept."""
    if finding.verdict == "pass":
        return dict(encounters.met)
    return encounters.dumps | (encounters.fresh_paths if finding.verdict in BROKEN else {})


def _build_unread_finding(view: NodeView, step: str, reasons: dict[str, str]) -> Finding:
    return Finding(
        UNREADABLE.id,
        step,
        "unknown",
        UNREADABLE.title,
        _format_reasons(reasons),
        fix=UNREADABLE.fix,
        node=view.node.name,
    )


def _watch_view(view: NodeView, encounters: _Encounters) -> NodeView:
    """Return the view with each part that lacks something replaced by one that reports its use."""
    host = _watch_host(view.host, encounters) if view.host is not None else None
    if not view.unread:
        return view if host is view.host else replace(view, host=host)

    def lose(name: str) -> Any:  # noqa: ANN401 - it stands in for a listing of any type
        lost: _LostDump[Any] = _LostDump()
        lost.report = partial(encounters.add_dump, name, view.unread[name])
        return lost

    state: dict[str, Any] = {name: lose(name) for name in STATE_DUMPS if name in view.unread}
    parts: dict[str, Any] = {name: lose(AGENT) for name in ("pods", "refusals") if AGENT in view.unread}
    parts |= {name: _watch_ports(view, name, encounters) for name in ("vfs", "dcb")}
    return replace(view, host=host, state=replace(view.state, **state), **parts)


def _watch_ports(view: NodeView, name: str, encounters: _Encounters) -> Mapping[str, Any]:
    reasons = {port.netdev: reason for port in view.node.ports if (reason := view.unread.get(f"{name} {port.netdev}"))}
    values: Mapping[str, Any] = getattr(view, name)
    return _Watched(values, reasons.get, lambda netdev, reason: encounters.add_path(f"{name} {netdev}", reason))


def _watch_host(host: Snapshot, encounters: _Encounters) -> Snapshot:
    reasons = {path: reason for path, reason in host.unreadable.items() if reason not in _NOTHING_TO_READ}
    failures = {argv: _describe_failure(ran) for argv, ran in host.outputs.items() if ran.status in _NO_ANSWER}
    if not reasons and not any(ran.status for ran in host.outputs.values()):
        return host
    find_reason = partial(_find_refusal, reasons)
    return _WatchedSnapshot(
        _Watched(host.files, find_reason, encounters.add_path),
        _Watched(host.links, find_reason, encounters.add_path),
        _Watched(host.folders, find_reason, encounters.add_path),
        _Watched(host.outputs, failures.get, encounters.add_program),
        host.unreadable,
        encounters,
    )


def _find_refusal(reasons: Mapping[str, str], path: str) -> str | None:
    """Return why a path, or a folder above it, could not be read; None if they could."""
    while path:
        if path in reasons:
            return reasons[path]
        path = path.rpartition("/")[0]
    return None


def _describe_failure(outcome: ProgramResult) -> str:
    return outcome.output.strip().partition("\n")[0][:_MAX_REASON_CHARACTERS] or f"exit status {outcome.status}"


def _is_nothing_to_read(text: str) -> bool:
    return any(reason in text for reason in _NOTHING_TO_READ)


_MAX_REASON_CHARACTERS = 120
_MAX_INPUTS = 3
"""Maximum number of inputs that the evidence lists."""


def _format_reasons(reasons: dict[str, str]) -> str:
    listing = "; ".join(f"{name}: {reason}" for name, reason in list(reasons.items())[:_MAX_INPUTS])
    return listing + (f"; and {len(reasons) - _MAX_INPUTS} more" if len(reasons) > _MAX_INPUTS else "")
