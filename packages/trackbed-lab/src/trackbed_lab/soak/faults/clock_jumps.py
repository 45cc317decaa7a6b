"""The time of day of one program jumps, forward or back, and returns after some seconds."""

import random
from functools import partial

from trackbed_lab.soak.faults.fault import Injection, SiteFault
from trackbed_lab.soak.site import Site

_OFFSETS = ("+30s", "-30s", "+2h", "-2h", "+1d", "-1d")
_SECONDS = (2.0, 8.0)


def _move_clock(site: Site, chance: random.Random) -> Injection | None:
    daemon, offset = chance.choice(site.daemons), chance.choice(_OFFSETS)
    daemon.set_clock(offset)
    return Injection(f"clock of {daemon.name} {offset}", chance.uniform(*_SECONDS), partial(daemon.set_clock, "+0"))


FAULTS = (SiteFault("clock-jump", _move_clock),)
