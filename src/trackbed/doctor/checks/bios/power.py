"""Firmware settings other than PCI: CPU power saving, and kernel lockdown by Secure Boot."""

import re
from collections import Counter
from collections.abc import Iterator

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.checks.firmware.settings import list_unmet_settings
from trackbed.doctor.finding import Finding
from trackbed.doctor.hardware import iter_pci_functions
from trackbed.doctor.view import NodeView
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

_GOVERNORS = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
LOCKDOWN = "/sys/kernel/security/lockdown"
READS = Wanted(files=(_GOVERNORS, LOCKDOWN))


def check_host(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check the CPU governor and kernel lockdown, if the kernel has them."""
    governors = Counter(name for path in host.glob(_GOVERNORS) if (name := host.read_text(path)) is not None)
    if governors:
        evidence = ", ".join(f"{count} CPUs {name}" for name, count in governors.most_common())
        ok = set(governors) == {"performance"}
        yield build_finding("bios-cpu-governor-powersave", view.node, None, ok=ok, evidence=evidence)
    mode = re.search(r"\[(\w+)\]", host.read_text(LOCKDOWN) or "")
    if mode:
        unmet = [
            setting
            for port, pci in iter_pci_functions(view, host)
            for setting in list_unmet_settings(view, host, port, pci)
        ]
        evidence = f"{LOCKDOWN} is {mode[1]}"
        evidence += f", and to be set in the NIC: {', '.join(unmet)}" if unmet else ", and the NIC needs no settings"
        ok = mode[1] == "none" or not unmet
        yield build_finding("bios-lockdown-blocks-firmware-tools", view.node, None, ok=ok, evidence=evidence)
