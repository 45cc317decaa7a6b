"""Faults that a soak injects: a module for each kind, with a tuple FAULTS of SiteFault or PodFault.

A new module has its line in `NAMES`. A soak in which a fault was never injected has failed.
"""

from importlib import import_module

from trackbed_lab.soak.faults.fault import PodFault, SiteFault

NAMES = (
    "agent_killed",
    "api_server_away",
    "clock_jumps",
    "controller_killed",
    "disk_full",
    "doubled_requests",
    "netns_vanished",
)
"""Modules of this package."""

_FAULTS = [fault for name in NAMES for fault in import_module(f"{__name__}.{name}").FAULTS]

SITE_FAULTS: tuple[SiteFault, ...] = tuple(fault for fault in _FAULTS if isinstance(fault, SiteFault))
"""Faults of the site, injected one after another."""
POD_FAULTS: tuple[PodFault, ...] = tuple(fault for fault in _FAULTS if isinstance(fault, PodFault))
"""Faults of a single pod, each injected into some pods."""
