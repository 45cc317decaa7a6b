"""The reference page of faults: what doctor looks for, how each check is tested, and what is left out."""

from collections.abc import Iterator
from itertools import groupby

from trackbed_lab.faults import FAULTS
from trackbed_lab.vm.faults import FAULTS as VM_FAULTS

from trackbed.cli.faults import list_places
from trackbed.doctor.catalogue import Fault, load_catalogue, load_unchecked_faults

_HEAD = """# Faults

Doctor has a check for each of these, in this order: cause before effect.
`trackbed faults ID` explains one. "Checked on" says where its check runs:

- **host**: `trackbed doctor` on a host
- **capture**: `trackbed doctor --root` on an unpacked capture of a host
- **nodes**: where the views of other nodes are read too
- **lab**: in the lab only, which knows the addresses of leaves

Each check is tested by the fault being named first, and by silence on a sound host, in one of two ways:

- **namespaces**: made for real in a lab of network namespaces (`trackbed lab break ID`)
- **files**: replayed from files and program output as such a host has them

**servers** says that the fault is made inside an emulated server, too (`trackbed lab vm break node-0 ID`), named first
and mended there: `scripts/test --all tests/lab/test_servers.py`. Where such a server lacks the part that
breaks, a file is laid over what the kernel shows, or a line is written into its log.
"""

_COLUMNS = "| fault | verdict | what is checked | checked on | tested in |\n|---|---|---|---|---|\n"


def render_faults_page() -> str:
    """Render the whole page."""
    return "".join((_HEAD, *_iter_steps(), *_iter_unchecked()))


def describe_tests(fault: str) -> str:
    """Return where the fault is made for the tests."""
    first = "namespaces" if fault in FAULTS else "files"
    return f"{first}, servers" if any(vm_fault.id == fault for vm_fault in VM_FAULTS) else first


def _iter_steps() -> Iterator[str]:
    faults = load_catalogue()
    counts = {
        place: sum(place in describe_tests(fault) for fault in faults) for place in ("namespaces", "files", "servers")
    }
    on_host = sum("host" in list_places(fault) for fault in faults.values())
    yield (
        f"\n{len(faults)} checks, {on_host} of which run on a host: "
        + ", ".join(f"{count} in {place}" for place, count in counts.items())
        + ".\n"
    )
    for step, members in groupby(faults.values(), key=lambda fault: fault.step):
        yield f"\n## {step}\n\n{_COLUMNS}{''.join(map(_render_row, members))}"


def _render_row(fault: Fault) -> str:
    reboot, places = ", reboot" if fault.needs_reboot else "", ", ".join(list_places(fault))
    return f"| `{fault.id}` | {fault.verdict}{reboot} | {fault.title} | {places} | {describe_tests(fault.id)} |\n"


def _iter_unchecked() -> Iterator[str]:
    reasons = load_unchecked_faults()
    if reasons:
        yield "\n## Known and not looked for\n\n| fault | why |\n|---|---|\n"
        yield from (f"| `{fault}` | {why} |\n" for fault, why in reasons.items())
