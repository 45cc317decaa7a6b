"""An agent is killed in the midst of its work, and started again at once or after some seconds."""

import random
import signal

from trackbed_lab.soak.faults.fault import Injection, SiteFault
from trackbed_lab.soak.site import Site

_SECONDS = (0.0, 3.0)


def _kill_agent(site: Site, chance: random.Random) -> Injection | None:
    running = [node.daemon for node in site.nodes if node.daemon.expendable and node.daemon.pid]
    if not running:
        return None
    daemon = chance.choice(running)
    daemon.stop(signal.SIGKILL)
    return Injection(f"{daemon.name} killed", chance.uniform(*_SECONDS), daemon.start)


FAULTS = (SiteFault("agent-killed", _kill_agent),)
