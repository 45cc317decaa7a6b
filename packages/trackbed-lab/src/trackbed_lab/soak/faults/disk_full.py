"""The disk of an agent's journal is full for some seconds."""

import random
from contextlib import suppress

from trackbed_lab.soak.faults.fault import Injection, SiteFault
from trackbed_lab.soak.site import DISK_BYTES, Site

_SECONDS = (1.0, 6.0)
_BLOCK = bytes(4096)


def _fill_disk(site: Site, chance: random.Random) -> Injection | None:
    nodes = [node for node in site.nodes if not (node.journal / "filler").exists()]
    if not nodes:
        return None
    node = chance.choice(nodes)
    filler = node.journal / "filler"
    with filler.open("wb", buffering=0) as stream, suppress(OSError):
        for _ in range(DISK_BYTES // len(_BLOCK) + 1):
            stream.write(_BLOCK)
    return Injection(f"disk of {node.name} full", chance.uniform(*_SECONDS), filler.unlink)


FAULTS = (SiteFault("disk-full", _fill_disk),)
