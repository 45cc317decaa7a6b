"""The reference page of faults, made from the checks: what doctor looks for, how it is tested, what is left out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import groupby

from trackbed.doctor.catalogue import Fault, load_catalogue, load_unchecked
from trackbed_lab.faults import FAULTS
from trackbed_lab.vm.faults import FAULTS as VM_FAULTS

_HEAD = """# Faults

Written by `scripts/docs`; do not edit. `trackbed doctor` looks for each of these, in this order: cause before effect.
`trackbed faults ID` explains one.

Each check is tested by the fault being named first, and by silence on a sound host, in one of two ways:

- **namespaces**: made for real in a lab of network namespaces (`trackbed lab break ID`)
- **files**: replayed from files and program output as such a host has them

**servers** says that the fault is made inside an emulated server, too (`trackbed lab vm break node-0 ID`), named first
and mended there: `TRACKBED_VM=1 scripts/test tests/lab/test_servers.py`. Where such a server lacks the part that
breaks, a file is laid over what the kernel shows, or a line is written into its log.
"""

_COLUMNS = "| fault | verdict | what is checked | tested in |\n|---|---|---|---|\n"


def page() -> str:
    """The whole page."""
    return "".join((_HEAD, *_steps(), *_unchecked()))


def tested_in(fault: str) -> str:
    """Where the fault is made."""
    here = "namespaces" if fault in FAULTS else "files"
    return f"{here}, servers" if fault in _in_servers() else here


def _in_servers() -> frozenset[str]:
    return frozenset(one.id for one in VM_FAULTS)


def _steps() -> Iterator[str]:
    known = load_catalogue()
    count = len(known)
    made = {place: sum(place in tested_in(one) for one in known) for place in ("namespaces", "files", "servers")}
    yield f"\n{count} checks: " + ", ".join(f"{number} in {place}" for place, number in made.items()) + ".\n"
    for step, faults in groupby(known.values(), key=lambda fault: fault.step):
        yield f"\n## {step}\n\n{_COLUMNS}{''.join(map(_row, faults))}"


def _row(fault: Fault) -> str:
    reboot = ", reboot" if fault.needs_reboot else ""
    return f"| `{fault.id}` | {fault.verdict}{reboot} | {fault.title} | {tested_in(fault.id)} |\n"


def _unchecked() -> Iterator[str]:
    reasons = load_unchecked()
    if reasons:
        yield "\n## Known and not looked for\n\n| fault | why |\n|---|---|\n"
        yield from (f"| `{fault}` | {why} |\n" for fault, why in reasons.items())


if __name__ == "__main__":
    sys.stdout.write(page())
