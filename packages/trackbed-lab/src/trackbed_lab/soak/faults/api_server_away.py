"""The API server is killed and stays away for some seconds; etcd keeps its data."""

import random

from trackbed_lab.kubernetes import control_plane
from trackbed_lab.soak.faults.fault import Injection, SiteFault
from trackbed_lab.soak.site import API_SERVER, Site

_SECONDS = (1.0, 8.0)
_PAUSE_SECONDS = 60.0
"""A start takes 20 s on a busy machine, and a roll-out needs a Lease, which takes as long."""


def _kill_api_server(site: Site, chance: random.Random) -> Injection | None:
    if not site.is_api_ready():
        return None
    site.api_command = []
    argv = control_plane.kill_program(site.cluster, API_SERVER)

    def start_again() -> None:
        site.api_command = argv
        site.keep_api_server()

    return Injection(f"{API_SERVER} killed", chance.uniform(*_SECONDS), start_again)


FAULTS = (SiteFault("api-server-away", _kill_api_server, _PAUSE_SECONDS),)
