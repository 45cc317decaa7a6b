"""Comparison of a BMC's BIOS attributes with the wanted settings, by a vendor's profile.

Attribute registries follow DMTF DSP8010, schema AttributeRegistry: DisplayName, Value, ReadOnly, GrayOut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

Value = str | int | float | bool | None

VENDORS = {"dell": "dell", "hp": "hpe", "hpe": "hpe", "hewlett": "hpe", "lenovo": "lenovo", "supermicro": "supermicro"}
"""First word of a manufacturer in lower case -> profile. Supermicro is also spelled Super Micro."""

_SPELLINGS = {"enabled": ("Enabled", "Enable", "On"), "disabled": ("Disabled", "Disable", "Off")}
_TRUTH = {"enabled": True, "disabled": False}


class Candidate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An attribute that may hold a wanted setting; it is found by its name or its label."""

    name: str | None = None
    label: str | None = None
    values: dict[str, tuple[str, ...]] = {}


Profile = dict[str, tuple[Candidate, ...]]


class AllowedValue(msgspec.Struct, frozen=True):
    """One allowed value of an enumeration."""

    name: str = msgspec.field(name="ValueName", default="")


class RegistryEntry(msgspec.Struct, frozen=True):
    """One attribute in a registry."""

    name: str = msgspec.field(name="AttributeName")
    label: str | None = msgspec.field(name="DisplayName", default=None)
    values: tuple[AllowedValue, ...] | None = msgspec.field(name="Value", default=None)
    read_only: bool | None = msgspec.field(name="ReadOnly", default=None)
    grayed_out: bool | None = msgspec.field(name="GrayOut", default=None)


class BiosState(msgspec.Struct, frozen=True):
    """A BMC's manufacturer, current and pending attributes, and the registry's entries by name."""

    manufacturer: str
    attributes: Mapping[str, Value]
    pending: Mapping[str, Value]
    registry: Mapping[str, RegistryEntry]


class SettingState(msgspec.Struct, frozen=True):
    """The state of one wanted setting; `value` is the value to stage, `attribute` is None if the server has none."""

    setting: str
    want: str
    state: Literal["same", "staged", "differs", "missing", "locked", "illegal"]
    attribute: str | None = None
    have: Value = None
    value: Value = None
    advice: str = ""


def find_vendor(manufacturer: str) -> str | None:
    """Return the name of the profile for a manufacturer as reported by the BMC; None if there is no profile for it."""
    words = re.findall(r"[a-z]+", manufacturer.lower().replace("super micro", "supermicro"))
    return VENDORS.get(words[0]) if words else None


def compare(profile: Profile, wanted: Mapping[str, str], state: BiosState) -> tuple[SettingState, ...]:
    """Return the state of every wanted setting, in the order of `wanted`."""
    return tuple(
        item for setting, want in wanted.items() for item in _iter_setting_states(profile, setting, want, state)
    )


def _iter_setting_states(profile: Profile, setting: str, want: str, state: BiosState) -> Iterator[SettingState]:
    matches = [
        (name, candidate) for candidate in profile.get(setting, ()) for name in _iter_attribute_names(candidate, state)
    ]
    if not matches:
        advice = "this server names no attribute that we know for it; look in its firmware setup"
        yield SettingState(setting, want, "missing", advice=advice)
    for name, candidate in dict(matches).items():
        yield _compare_attribute(setting, want, name, candidate.values.get(want, _SPELLINGS.get(want, (want,))), state)


def _iter_attribute_names(candidate: Candidate, state: BiosState) -> Iterator[str]:
    if candidate.name in state.attributes:
        yield candidate.name or ""
    if candidate.label is None:
        return
    label = _normalize_label(candidate.label)
    for name in state.attributes:
        entry = state.registry.get(name)
        shown = entry.label if entry is not None and entry.label else re.sub(r"_[0-9A-Fa-f]{4}$", "", name)
        if _normalize_label(shown) == label:
            yield name


def _normalize_label(label: str) -> str:
    return re.sub(r"[^a-z0-9]", "", label.lower())


def _compare_attribute(
    setting: str, want: str, name: str, spellings: tuple[str, ...], state: BiosState
) -> SettingState:
    have, entry = state.attributes[name], state.registry.get(name)
    value = _choose_value(want, spellings, have, entry)
    if value is None:
        legal = ", ".join(value_entry.name for value_entry in (entry.values if entry else None) or ())
        advice = f"it takes only {legal or 'values that are not known'}; set it by hand if one of them means {want}"
        return SettingState(setting, want, "illegal", name, have, advice=advice)
    pending = state.pending.get(name, have)
    if pending == value:
        return SettingState(setting, want, "same" if have == value else "staged", name, have, value)
    if entry is not None and (entry.read_only or entry.grayed_out):
        advice = (
            "the BMC lets nobody change it now; another attribute governs it (a workload or system profile, a lock)"
        )
        return SettingState(setting, want, "locked", name, have, value, advice)
    return SettingState(setting, want, "differs", name, have, value)


def _choose_value(want: str, spellings: tuple[str, ...], have: Value, entry: RegistryEntry | None) -> Value:
    """Return the value to stage, in the attribute's type and spelling; None if the attribute does not allow it."""
    if isinstance(have, bool):
        return _TRUTH.get(want)
    if isinstance(have, int) and want.isdigit():
        return int(want)
    legal = [value_entry.name for value_entry in (entry.values if entry else None) or ()] or [str(have), *spellings]
    known = {text.lower(): text for text in reversed(legal)}
    return next((known[text.lower()] for text in spellings if text.lower() in known), None)
