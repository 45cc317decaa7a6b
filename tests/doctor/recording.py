"""Records what each check reads of a host, and takes one of these inputs away.

A check is not asked what it needs: it runs on a snapshot that notes every path and command it is asked for, those that
the host lacks included. So a new check is in each test that uses this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

from trackbed.doctor.checks import MODULES
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.snapshot import Snapshot

_K = TypeVar("_K")
_V = TypeVar("_V")
PATTERN_CHARACTERS = frozenset("*?[")


class Input(NamedTuple):
    """A file, link, folder or output of a host, or a `listing`: the folder in which a pattern looks for files."""

    kind: str
    key: str | tuple[str, ...]


class _Recorded(Mapping[_K, _V]):
    """A mapping that notes the keys it is asked for."""

    def __init__(self, kind: str, values: Mapping[_K, _V], reads: set[Input]) -> None:
        self._kind, self._values, self._reads = kind, values, reads

    def __getitem__(self, key: _K) -> _V:
        self._reads.add(Input(self._kind, key))  # type: ignore[arg-type] # a path or a command
        return self._values[key]

    def __iter__(self) -> Iterator[_K]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


@dataclass(frozen=True)
class _RecordingSnapshot(Snapshot):
    """A snapshot that also notes in which folders patterns look."""

    reads: set[Input] = field(default_factory=set)

    def glob(self, *patterns: str) -> list[str]:
        """Note the folder above the first wildcard of each pattern."""
        for pattern in patterns:
            parts = pattern.split("/")
            wild = next((n for n, part in enumerate(parts) if PATTERN_CHARACTERS & {*part}), None)
            if wild is not None:
                self.reads.add(Input("listing", "/".join(parts[:wild])))
        return super().glob(*patterns)


class Reading(NamedTuple):
    """A finding, the module that made it, and what that module had read by then."""

    module: str
    finding: Finding
    inputs: frozenset[Input]


def record_reads(view: NodeView) -> Iterator[Reading]:
    """Yield the findings of each module's checks of the host with what was read for them."""
    assert view.host
    for name in MODULES:
        check = getattr(import_module(f"trackbed.doctor.checks.{name}"), "check_host", None)
        if check is None:
            continue
        reads: set[Input] = set()
        recorded = _RecordingSnapshot(
            **{
                kind.name: _Recorded(kind.name, getattr(view.host, kind.name), reads)
                for kind in fields(Snapshot)
                if kind.name != "unreadable"
            },
            reads=reads,
        )
        for finding in check(replace(view, host=recorded), recorded):
            yield Reading(name, finding, frozenset(reads))


def refuse_input(refused: Input) -> Callable[[NodeView], NodeView]:
    """Make an input exist and be unreadable; a program is stopped by its time limit."""

    def change(view: NodeView) -> NodeView:
        host = view.host
        assert host
        if refused.kind == "outputs":
            assert isinstance(refused.key, tuple)
            outcome = ProgramResult(124, f"{refused.key[0]} took more than 300 s: ")
            return replace(view, host=replace(host, outputs={**host.outputs, refused.key: outcome}))
        assert isinstance(refused.key, str)
        reasons = {**host.unreadable, refused.key: "Permission denied"}
        return replace(view, host=replace(remove_input(refused)(view).host or host, unreadable=reasons))

    return change


def remove_input(removed: Input) -> Callable[[NodeView], NodeView]:
    """Make a host lack an input; for a listing, all that is below the folder."""

    def change(view: NodeView) -> NodeView:
        host = view.host
        assert host
        if removed.kind != "listing":
            kept: dict[str, Any] = {removed.kind: _drop(getattr(host, removed.kind), removed.key)}
            return replace(view, host=replace(host, **kept))
        below: dict[str, Any] = {
            name: _drop_below(getattr(host, name), f"{removed.key}/") for name in ("files", "links", "folders")
        }
        return replace(view, host=replace(host, **below))

    return change


def _drop(values: Mapping[Any, Any], key: Any) -> dict[Any, Any]:
    return {name: value for name, value in values.items() if name != key}


def _drop_below(values: Mapping[str, Any], folder: str) -> dict[str, Any]:
    return {path: value for path, value in values.items() if not path.startswith(folder)}
