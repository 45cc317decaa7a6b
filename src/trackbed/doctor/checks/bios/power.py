"""What the firmware setup decides beside PCI: how the CPU saves power, and lockdown by Secure Boot."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge
from trackbed.doctor.checks.firmware.settings import list_unmet_settings
from trackbed.doctor.hardware import iter_functions
from trackbed.host.snapshot.snapshot import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.host.snapshot.snapshot import Snapshot

_GOVERNORS = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
LOCKDOWN = "/sys/kernel/security/lockdown"
READS = Wanted(files=(_GOVERNORS, LOCKDOWN))


def check(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Judge governor and lockdown; a host without either has nothing to set."""
    governors = Counter(host.text(path) for path in host.glob(_GOVERNORS))
    if governors:
        told = ", ".join(f"{count} CPUs {name}" for name, count in governors.most_common())
        yield judge("bios-cpu-governor-powersave", view.node, None, ok=set(governors) == {"performance"}, evidence=told)
    mode = re.search(r"\[(\w+)\]", host.text(LOCKDOWN) or "")
    if mode:
        wrong = [
            text for port, pci in iter_functions(view, host) for text in list_unmet_settings(view, host, port, pci)
        ]
        told = f"{LOCKDOWN} is {mode[1]}"
        told += f", and to be set in the NIC: {', '.join(wrong)}" if wrong else ", and nothing is to be set in the NIC"
        ok = mode[1] == "none" or not wrong
        yield judge("bios-lockdown-blocks-firmware-tools", view.node, None, ok=ok, evidence=told)
