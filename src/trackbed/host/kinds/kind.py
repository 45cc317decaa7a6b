"""The interface of a kind of setting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from trackbed.fabric.model.ranges import V4
from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.change import Change, Skipped
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.host.setting import Setting

W = TypeVar("W")
Kept = Mapping[str, Any]
"""What undo needs, as JSON. A key that has a port's name among its parts (separated by `/`) is of that name."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[W]):
    """One kind of setting, or several that are read and restored together; `name` is its key in the undo record."""

    name: str
    wants: tuple[type[W], ...]
    compare: Callable[[Setting, W, View], Change | Skipped | None]
    """Called only if the port exists (see `needs_port`) and the IP version is not disabled."""
    find_stale: Callable[[View], Iterable[Change]] = lambda _: ()
    """Changes that remove leftovers of earlier plans."""
    keep: Callable[[View], Kept] = lambda _: {}
    """Data for `restore`, from the state that was compared; called whether or not the kind is wanted."""
    restore: Callable[[Machine, Kept], Iterable[str]] = lambda _, __: ()
    """Restore what `keep` returned; yield failures as text."""
    describe: Callable[[W], str] = str
    """The setting in a few words."""
    version: Callable[[W], int] = lambda want: int(getattr(want, "version", V4))
    render_boot_line: Callable[[W, NodePlan], str] = lambda _, __: ""
    must_wait: Callable[[Setting, Sequence[Change]], bool] = lambda _, __: False
    """Whether a change must wait for the next round because of other changes in this one."""
    needs_port: bool = True
    """Whether the setting is skipped where its port is absent."""
    is_grouped: bool = True
    """Whether skipped settings of one step with one reason are reported as one."""
    is_for_boot: bool = False
    """Whether only the next boot sees it."""
    is_read_once: bool = False
    """Whether reading takes so long that the rounds of an apply share the first comparison."""
    keeps_names: bool = False
    """Whether what is kept are names, below which other kinds are set."""


def has_rename(_: Setting, changes: Sequence[Change]) -> bool:
    """Return whether the changes rename a port or RDMA device.

    A setting whose path contains such a name waits for the next round.
    """
    return any(change.step in {"names", "rdma"} for change in changes)
