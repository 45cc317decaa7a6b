"""What kernel arguments mean: which of the wanted ones a command line has, and which it contradicts.

The kernel reads arguments from left to right (Documentation/admin-guide/kernel-parameters.rst). For most the last one
wins; `pci`, `iommu`, `intel_iommu` and `amd_iommu` are lists that add up; a `hugepages` counts for the `hugepagesz`
before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from trackbed.host.machine import Absent, Machine, Unreadable

_LISTS = frozenset({"pci", "iommu", "intel_iommu", "amd_iommu"})
_AGAINST = {
    "iommu": frozenset({"off", "nopt", "soft"}),
    "intel_iommu": frozenset({"off"}),
    "amd_iommu": frozenset({"off"}),
    "pci": frozenset({"realloc=off"}),
}
"""Values in a list that contradict the wanted ones."""

IOMMU: Mapping[str, tuple[str, ...]] = {
    "GenuineIntel": ("intel_iommu=on", "iommu=pt"),
    "AuthenticAMD": ("amd_iommu=on", "iommu=pt"),
    "HygonGenuine": ("amd_iommu=on", "iommu=pt"),
    "Arm": ("iommu.passthrough=1",),
}
"""Vendor, as /proc/cpuinfo says it (Arm: "CPU implementer" is there) -> words that put its IOMMU in pass-through."""


def split(line: str) -> tuple[str, ...]:
    """Return the arguments of a command line; blanks in double quotes do not separate them."""
    words, current, quoted = [], "", False
    for letter in line.strip() + " ":
        quoted ^= letter == '"'
        if letter.isspace() and not quoted:
            words += [current] if current else []
            current = ""
        else:
            current += letter
    return tuple(words)


def is_fulfilled(group: str, line: Sequence[str]) -> bool:
    """Return whether a command line has a wanted argument (or huge page pair) that no later argument undoes."""
    if group.startswith("hugepagesz="):
        size, count = _parse_pair(group)
        return _parse_pages(line).get(size) == count
    name, equals, value = group.partition("=")
    values = _list_values(name, line)
    if name in _LISTS:
        parts = [part for text in values for part in text.split(",")]
        return value in parts and not _AGAINST[name] & set(parts)
    return bool(values) and values[-1] == (value if equals else "")


def list_contradictions(group: str, line: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments of a command line that contradict a wanted one."""
    if group.startswith("hugepagesz="):
        size, count = _parse_pair(group)
        have = _parse_pages(line).get(size)
        return (f"hugepagesz={size} hugepages={have}",) if have not in {None, count} else ()
    name, _, value = group.partition("=")
    present = [word for word in line if word.partition("=")[0] == name]
    if name in _LISTS:
        return tuple(word for word in present if _AGAINST[name] & set(word.partition("=")[2].split(",")))
    return tuple(word for word in present if word.partition("=")[2] != value)


def remove_words(line: Iterable[str], ours: Iterable[str]) -> tuple[str, ...]:
    """Remove the last occurrence of each of our arguments from a command line."""
    words = list(line)
    for word in ours:
        if word in words:
            del words[len(words) - 1 - words[::-1].index(word)]
    return tuple(words)


def find_iommu_arguments(machine: Machine) -> tuple[str, ...] | None:
    """Return the arguments for IOMMU pass-through on this CPU; None where /proc/cpuinfo names no known vendor."""
    text = machine.read("/proc/cpuinfo")
    if isinstance(text, Absent | Unreadable):
        return None
    lines = dict(_parse_field(line) for line in reversed(text.splitlines()) if ":" in line)
    vendor = lines.get("vendor_id") or ("Arm" if "CPU implementer" in lines else "")
    return IOMMU.get(vendor)


def _parse_field(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip(), value.strip()


def _list_values(name: str, line: Sequence[str]) -> list[str]:
    return [value for key, _, value in (word.partition("=") for word in line) if key == name]


def _parse_pair(group: str) -> tuple[str, str]:
    size, count = (word.partition("=")[2] for word in group.split())
    return size.upper(), count


def _parse_pages(line: Sequence[str]) -> dict[str, str]:
    """Return the count of each huge page size; a count before any size belongs to the default size."""
    size = (_list_values("default_hugepagesz", line) or ["2M"])[-1].upper()
    counts: dict[str, str] = {}
    for word in line:
        key, _, value = word.partition("=")
        if key == "hugepagesz":
            size = value.upper()
        if key == "hugepages":
            counts[size] = value
    return counts
