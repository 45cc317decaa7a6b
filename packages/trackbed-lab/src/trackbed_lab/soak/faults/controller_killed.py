"""A controller is killed, whether it leads or not, and started again after some seconds."""

import random
import signal

from trackbed_lab.soak.faults.fault import Injection, SiteFault
from trackbed_lab.soak.site import Site

_SECONDS = (0.0, 5.0)


def _kill_controller(site: Site, chance: random.Random) -> Injection | None:
    running = [daemon for daemon in site.controllers if daemon.expendable and daemon.pid]
    if not running:
        return None
    daemon = chance.choice(running)
    daemon.stop(signal.SIGKILL)
    return Injection(f"{daemon.name} killed", chance.uniform(*_SECONDS), daemon.start)


FAULTS = (SiteFault("controller-killed", _kill_controller),)
