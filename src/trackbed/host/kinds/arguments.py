"""Comparison of kernel command lines with wanted arguments.

The kernel reads arguments from left to right (Documentation/admin-guide/kernel-parameters.rst). Of most arguments the
last occurrence takes effect. `pci`, `iommu`, `intel_iommu` and `amd_iommu` are lists that add up. `hugepages` belongs
to the `hugepagesz` before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from trackbed.host.machine import Machine

_LISTS = frozenset({"pci", "iommu", "intel_iommu", "amd_iommu"})
_AGAINST = {
    "iommu": frozenset({"off", "nopt", "soft"}),
    "intel_iommu": frozenset({"off"}),
    "amd_iommu": frozenset({"off"}),
    "pci": frozenset({"realloc=off"}),
}
"""Name of an argument that is a list -> values in it that contradict the wanted value."""

IOMMU: Mapping[str, tuple[str, ...]] = {
    "GenuineIntel": ("intel_iommu=on", "iommu=pt"),
    "AuthenticAMD": ("iommu=pt",),
    "HygonGenuine": ("iommu=pt",),
    "Arm": ("iommu.passthrough=1",),
}
"""Vendor in /proc/cpuinfo (Arm: the line "CPU implementer") -> arguments for IOMMU pass-through.

AMD's IOMMU is on where the firmware has its table IVRS; `amd_iommu=on` is not among the values that the kernel knows
(parse_amd_iommu_options in drivers/iommu/amd/init.c, Linux 6.12).
"""


def split_cmdline(cmdline: str) -> tuple[str, ...]:
    """Split a command line into arguments at blanks outside double quotes."""
    words, current, quoted = [], "", False
    for letter in cmdline.strip() + " ":
        quoted ^= letter == '"'
        if letter.isspace() and not quoted:
            words += [current] if current else []
            current = ""
        else:
            current += letter
    return tuple(words)


def is_fulfilled(group: str, cmdline_words: Sequence[str]) -> bool:
    """Return whether a command line fulfils a wanted argument, or a wanted pair of arguments for huge pages."""
    if group.startswith("hugepagesz="):
        size, count = _parse_huge_page_pair(group)
        return _parse_huge_page_counts(cmdline_words).get(size) == count
    name, equals, value = group.partition("=")
    values = _list_values(name, cmdline_words)
    if name in _LISTS:
        parts = {part for text in values for part in text.split(",")}
        return parts.issuperset(value.split(",")) and not _AGAINST[name] & parts
    return bool(values) and values[-1] == (value if equals else "")


def list_contradictions(group: str, cmdline_words: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments of a command line that contradict a wanted one."""
    if group.startswith("hugepagesz="):
        size, count = _parse_huge_page_pair(group)
        have = _parse_huge_page_counts(cmdline_words).get(size)
        return (f"hugepagesz={size} hugepages={have}",) if have not in {None, count} else ()
    name, _, value = group.partition("=")
    present = [word for word in cmdline_words if word.partition("=")[0] == name]
    if name in _LISTS:
        return tuple(word for word in present if _AGAINST[name] & set(word.partition("=")[2].split(",")))
    return tuple(word for word in present if word.partition("=")[2] != value)


def remove_arguments(cmdline_words: Iterable[str], arguments: Iterable[str]) -> tuple[str, ...]:
    """Remove the last occurrence of each argument from a command line."""
    words = list(cmdline_words)
    for word in arguments:
        if word in words:
            del words[len(words) - 1 - words[::-1].index(word)]
    return tuple(words)


def find_iommu_arguments(machine: Machine) -> tuple[str, ...] | None:
    """Return the arguments for IOMMU pass-through on this CPU; None if /proc/cpuinfo has no known vendor."""
    lines = (line.partition(":") for line in reversed(machine.read_lines("/proc/cpuinfo")))
    fields = {name.strip(): value.strip() for name, colon, value in lines if colon}
    return IOMMU.get(fields.get("vendor_id") or ("Arm" if "CPU implementer" in fields else ""))


def _list_values(name: str, cmdline_words: Sequence[str]) -> list[str]:
    return [value for key, _, value in (word.partition("=") for word in cmdline_words) if key == name]


def _parse_huge_page_pair(group: str) -> tuple[str, str]:
    size, count = (word.partition("=")[2] for word in group.split())
    return size.upper(), count


def _parse_huge_page_counts(cmdline_words: Sequence[str]) -> dict[str, str]:
    """Return the count of each huge page size; a count before any size belongs to the default size."""
    size = (_list_values("default_hugepagesz", cmdline_words) or ["2M"])[-1].upper()
    counts: dict[str, str] = {}
    for word in cmdline_words:
        key, _, value = word.partition("=")
        if key == "hugepagesz":
            size = value.upper()
        if key == "hugepages":
            counts[size] = value
    return counts
