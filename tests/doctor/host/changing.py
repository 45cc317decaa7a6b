"""Changes of a sound view: each function returns a function from a view to a faulty view."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import pytest

from trackbed.doctor import diagnosis
from trackbed.doctor.checks import run_checks
from trackbed.doctor.view import NodeView
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.snapshot import Snapshot

Fault: TypeAlias = Callable[[NodeView], NodeView]

RAIL = "rail1"
"""The port that is changed."""


_NEAR = ("rdma", "vfs", "names", "addresses", "addresses_host", "neighbours", "tables", "routing", "routing_host")
"""Steps for which the hosts of these tests have all data; the other steps have their own tests."""


def limit_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit doctor to the steps for which the host has all data."""
    monkeypatch.setattr(diagnosis, "run_checks", lambda view: run_checks(view, _NEAR))


def change_host(
    files: Mapping[str, str | None] | None = None,
    links: Mapping[str, str | None] | None = None,
    folders: Mapping[str, tuple[str, ...] | None] | None = None,
    outputs: Mapping[tuple[str, ...], ProgramResult | None] | None = None,
) -> Fault:
    """Change the host's snapshot; None removes an entry."""

    def change(view: NodeView) -> NodeView:
        was = view.host
        assert was is not None
        new = {path: None if text is None else text.encode() for path, text in (files or {}).items()}
        now = Snapshot(
            _merge(was.files, new),
            _merge(was.links, links or {}),
            _merge(was.folders, folders or {}),
            _merge(was.outputs, outputs or {}),
            was.unreadable,
        )
        return replace(view, host=now)

    return change


def make_unreadable(path: str) -> Fault:
    """Make a file unreadable."""

    def change(view: NodeView) -> NodeView:
        was = view.host
        assert was is not None
        files = {name: content for name, content in was.files.items() if name != path}
        return replace(view, host=replace(was, files=files, unreadable={path: "Permission denied"}))

    return change


def _merge(old: Mapping[Any, Any], new: Mapping[Any, Any]) -> dict[Any, Any]:
    return {key: value for key, value in {**old, **new}.items() if value is not None}


def change_vf(number: int, **changes: Any) -> Fault:
    """Change a VF's netlink attributes."""

    def change(view: NodeView) -> NodeView:
        listing = view.vfs[RAIL]
        kept = tuple(entry._replace(**changes) if entry.index == number else entry for entry in listing.vfs)
        return replace(view, vfs={**view.vfs, RAIL: listing._replace(vfs=kept)})

    return change


def change_port(**changes: Any) -> Fault:
    """Change the port's interface."""

    def change(view: NodeView) -> NodeView:
        links = tuple(link._replace(**changes) if link.name == RAIL else link for link in view.state.links)
        return replace(view, state=replace(view.state, links=links))

    return change


def change_plan(**changes: Any) -> Fault:
    """Change the plan's common settings."""

    def change(view: NodeView) -> NodeView:
        common = view.node.common._replace(**changes)
        return replace(view, node=view.node._replace(common=common))

    return change


def combine(*faults: Fault) -> Fault:
    """Combine changes in order."""

    def change(view: NodeView) -> NodeView:
        for fault in faults:
            view = fault(view)
        return view

    return change
