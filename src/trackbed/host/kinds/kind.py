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
UndoData = Mapping[str, Any]
"""The data that undo needs, by key. The name of a port or RDMA device in a path refers to that device."""


@dataclass(frozen=True)
class Kind(Generic[W]):
    """One kind of setting, or several that are read and restored together. `name` is the key in the undo record."""

    name: str
    wants: tuple[type[W], ...]
    compare: Callable[[Setting, W, View], Change | Skipped | None]
    """Called only if the port exists (see `needs_port`) and the IP version is not disabled."""
    find_stale: Callable[[View], Iterable[Change]] = lambda _: ()
    """Yield changes that remove leftovers of earlier plans."""
    read_undo_data: Callable[[View], UndoData] = lambda _: {}
    """Return the data for `restore`, from the state that was compared; also called without such a setting."""
    restore: Callable[[Machine, UndoData], Iterable[str]] = lambda _, __: ()
    """Restore the state from the result of `read_undo_data`; yield failures as text."""
    undo_data_type: Any = dict[str, str]
    """The type of the result of `read_undo_data`, by which an undo record is checked (`fabric.documents`)."""
    describe: Callable[[W], str] = str
    """Return the setting in a few words."""
    version: Callable[[W], int] = lambda want: int(getattr(want, "version", V4))
    render_boot_line: Callable[[W, NodePlan], str] = lambda _, __: ""
    must_wait: Callable[[Setting, Sequence[Change]], bool] = lambda _, __: False
    """Return whether a setting's change must wait for the next round because of other changes in this round."""
    count_entries: Callable[[View], int] = lambda _: 0
    """Return the number of addresses, routes, rules or VFs on planned ports or marked as Trackbed's."""
    disrupts_pods: Callable[[Change], bool] = lambda _: True
    """Return whether making a change takes devices or traffic from pods, so that their node must be drained first."""
    find_writers: Callable[[W, View], Iterable[str]] = lambda _, __: ()
    """Yield the programs and files of others that may have set another value."""
    needs_port: bool = True
    """Whether the setting is skipped where its port is absent."""
    is_grouped: bool = True
    """Whether skipped settings of one step with the same reason are reported as one."""
    is_for_boot: bool = False
    """Whether the setting takes effect only at the next boot."""
    is_first: bool = False
    """Whether its changes are made in a round before all others, because devices vanish while they are made."""
    is_read_once: bool = False
    """Whether reading takes so long that the rounds of an apply share the first comparison."""
    tolerates_refusal: bool = False
    """Whether a change that the driver refuses is reported as a difference, while all other changes are made."""
    holds_names: bool = False
    """Whether the undo data are names of devices, which are part of the paths of other kinds."""


def keep_pods(_: Change) -> bool:
    """Return False: `Kind.disrupts_pods` of settings that can be changed under running pods."""
    return False


def has_rename(_: Setting, changes: Sequence[Change]) -> bool:
    """Return whether the changes rename a port or RDMA device.

    A setting whose path contains such a name waits for the next round.
    """
    return any(change.step in {"names", "rdma"} for change in changes)
