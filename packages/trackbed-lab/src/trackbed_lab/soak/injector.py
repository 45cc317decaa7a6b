"""The faults of the site: each kind in random order, over and over, several at once."""

import heapq
import random
import time
from collections.abc import Callable
from itertools import count

from trackbed_lab.soak.faults import SITE_FAULTS
from trackbed_lab.soak.faults.fault import SiteFault
from trackbed_lab.soak.site import Site

PAUSE_SECONDS = (2.0, 12.0)
"""Between two faults."""


class Injector:
    """Injects faults and heals them, whenever `step` is called."""

    def __init__(self, site: Site, seed: int) -> None:
        self._site = site
        self._chance = random.Random(f"{seed}/faults")  # noqa: S311 - to be repeated
        self._heals: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._queue: list[SiteFault] = []
        self._injected: dict[str, float] = {}
        self._due = 0.0
        self.latest = ""
        """Description of the fault that was injected last."""

    def step(self) -> None:
        """Heal what is due; inject the next fault if it is due."""
        now = time.monotonic()
        while self._heals and self._heals[0][0] <= now:
            heapq.heappop(self._heals)[2]()
        if now < self._due:
            return
        self._due = now + self._chance.uniform(*PAUSE_SECONDS)
        if not self._queue:
            self._queue = self._chance.sample(SITE_FAULTS, len(SITE_FAULTS))
        fault = self._queue.pop()
        is_early = now < self._injected.get(fault.id, 0.0) + fault.pause_seconds
        injection = None if is_early else fault.inject(self._site, self._chance)
        if injection is None:
            self._due = now  # the next kind, at once
        else:
            self._injected[fault.id] = now
            self._site.record.count(f"fault {fault.id}")
            self.latest = injection.description
            heapq.heappush(self._heals, (now + injection.seconds, next(self._numbers), injection.heal))

    def heal_all(self) -> None:
        """Heal every fault at once."""
        while self._heals:
            heapq.heappop(self._heals)[2]()
