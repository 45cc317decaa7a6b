"""Ways to change a sound view: each gives a function from a view to one with something wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from trackbed.doctor import diagnosis
from trackbed.doctor.checks import addresses, names, neighbours, rdma, routing, tables, vfs
from trackbed.doctor.view import NodeView
from trackbed.host.snapshot.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

    from trackbed.host.runner import Ran

Fault: TypeAlias = Callable[[NodeView], NodeView]

RAIL = "rail1"
"""The port that is changed."""


_NEAR = (rdma, vfs, names, addresses, neighbours, tables, routing)
"""Steps that look at what these tests make of a host; the others' hosts are in tests of their own."""


def only_near_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let doctor walk the steps that this host is complete for."""
    monkeypatch.setattr(diagnosis, "CHECKS", tuple(module.check for module in _NEAR))


def host(
    files: Mapping[str, str | None] | None = None,
    links: Mapping[str, str | None] | None = None,
    folders: Mapping[str, tuple[str, ...] | None] | None = None,
    outputs: Mapping[tuple[str, ...], Ran | None] | None = None,
) -> Fault:
    """Change what the host says; None takes it away."""

    def change(view: NodeView) -> NodeView:
        was = view.host
        assert was is not None
        new = {path: None if text is None else text.encode() for path, text in (files or {}).items()}
        now = Snapshot(
            _merged(was.files, new),
            _merged(was.links, links or {}),
            _merged(was.folders, folders or {}),
            _merged(was.outputs, outputs or {}),
            was.unreadable,
        )
        return replace(view, host=now)

    return change


def unreadable(path: str) -> Fault:
    """A file that is there and cannot be read."""

    def change(view: NodeView) -> NodeView:
        was = view.host
        assert was is not None
        files = {name: content for name, content in was.files.items() if name != path}
        return replace(view, host=replace(was, files=files, unreadable={path: "Permission denied"}))

    return change


def _merged(old: Mapping[Any, Any], new: Mapping[Any, Any]) -> dict[Any, Any]:
    return {key: value for key, value in {**old, **new}.items() if value is not None}


def vf(number: int, **changes: Any) -> Fault:
    """Change what netlink says of a VF."""

    def change(view: NodeView) -> NodeView:
        told = view.vfs[RAIL]
        kept = tuple(replace(one, **changes) if one.index == number else one for one in told.vfs)
        return replace(view, vfs={**view.vfs, RAIL: replace(told, vfs=kept)})

    return change


def port(**changes: Any) -> Fault:
    """Change the port's interface."""

    def change(view: NodeView) -> NodeView:
        links = tuple(replace(one, **changes) if one.name == RAIL else one for one in view.state.links)
        return replace(view, state=replace(view.state, links=links))

    return change


def planned(**changes: Any) -> Fault:
    """Change what the plan says of all nodes."""

    def change(view: NodeView) -> NodeView:
        common = msgspec.structs.replace(view.node.common, **changes)
        return replace(view, node=msgspec.structs.replace(view.node, common=common))

    return change


def both(*faults: Fault) -> Fault:
    """One change after the other."""

    def change(view: NodeView) -> NodeView:
        for fault in faults:
            view = fault(view)
        return view

    return change
