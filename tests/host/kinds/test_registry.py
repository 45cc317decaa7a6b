"""The registry, and what a new kind needs: its module and its line."""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass
from importlib import import_module

import pytest

from tests.host.places import Host
from tests.host.trees import grow
from trackbed.host import kinds
from trackbed.host.change import AttributeWrite, Change, build_change
from trackbed.host.kinds import registry
from trackbed.host.kinds.kind import Kind, UndoData
from trackbed.host.kinds.sysfs import read_undo_files, restore_files
from trackbed.host.kinds.view import View
from trackbed.host.setting import Setting
from trackbed.host.transaction import compare as comparing
from trackbed.host.transaction import record
from trackbed.host.transaction import undo as restoring
from trackbed.host.transaction.apply import apply, undo

FILE = "/sys/kernel/debug/lamp"


@dataclass(frozen=True, slots=True)
class Lamp:
    """A lamp is on."""

    value: str


def compare_lamp(setting: Setting, want: Lamp, view: View) -> Change | None:
    have = str(view.machine.read(FILE))
    return (
        None
        if have == want.value
        else build_change(setting, "lamp", have, want.value, (AttributeWrite(FILE, want.value),))
    )


def keep_lamp(view: View) -> UndoData:
    return read_undo_files(view, [FILE])


LAMP = Kind("lamp", (Lamp,), compare_lamp, read_undo_data=keep_lamp, restore=restore_files)


@pytest.fixture
def lamp(place: Host, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A host with a lamp, and one more line in the registry."""
    for module in (registry, comparing, record, restoring):
        monkeypatch.setattr(module, "KINDS", (*registry.KINDS, LAMP))
    monkeypatch.setitem(registry._BY_WANT, Lamp, LAMP)  # noqa: SLF001 - made from KINDS at import
    grow(place.machine.root, {FILE: "off\n"})
    return place


def test_every_kind_is_registered_once_with_a_name_and_wants_of_its_own() -> None:
    modules = (import_module(f"{kinds.__name__}.{module.name}") for module in pkgutil.iter_modules(kinds.__path__))
    defined = [module.KIND.name for module in modules if hasattr(module, "KIND")]
    assert sorted(kind.name for kind in registry.KINDS) == sorted(defined)
    wants = [want for kind in registry.KINDS for want in kind.wants]
    assert len(set(wants)) == len(wants)


def test_a_new_kind_is_compared_applied_and_undone(lamp: Host) -> None:
    settings = [Setting("limits", Lamp("on"), None, "a lamp shows that it is on")]
    assert [change.subject for change in apply(lamp.machine, settings, lamp.records).changes] == ["lamp"]
    assert lamp.machine.read(FILE) == "on"
    assert apply(lamp.machine, settings, lamp.records).changes == ()
    assert undo(lamp.machine, lamp.records) == ()
    assert lamp.machine.read(FILE) == "off"
