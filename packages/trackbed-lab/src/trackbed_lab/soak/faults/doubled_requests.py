"""A runtime sends two requests for one pod at once: two ADDs, an ADD and a DEL, or two DELs."""

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from trackbed_lab.soak.faults.fault import PodFault
from trackbed_lab.soak.pods import CniOutcome, SoakPod

_Result = TypeVar("_Result")
_MAX_DELAY_SECONDS = 0.02


def call_both(
    first: Callable[[], _Result], second: Callable[[], _Result], chance: random.Random
) -> tuple[_Result, _Result]:
    """Call two functions at once, the second up to 20 ms later; return their results."""
    delay = chance.uniform(0, _MAX_DELAY_SECONDS)

    def call_late() -> _Result:
        time.sleep(delay)
        return second()

    with ThreadPoolExecutor(2) as pool:
        futures = pool.submit(first), pool.submit(call_late)
        return futures[0].result(), futures[1].result()


def _add_twice(pod: SoakPod, chance: random.Random) -> CniOutcome:
    first, second = call_both(pod.add, pod.add, chance)
    if first.code == second.code == 0 and first.result != second.result:
        pod.report(f"two ADDs at once gave {first.result.get('ips')} and {second.result.get('ips')}")
    return min(first, second, key=lambda outcome: outcome.code != 0)


def _add_with_delete(pod: SoakPod, chance: random.Random) -> None:
    call_both(lambda: pod.call_expecting("ADD"), lambda: pod.call_expecting("DEL"), chance)


def _delete_twice(pod: SoakPod, chance: random.Random) -> None:
    pod.record.release_addresses(pod.name)
    call_both(lambda: pod.call_expecting("DEL"), lambda: pod.call_expecting("DEL"), chance)
    pod.delete()


FAULTS = (
    PodFault("add-twice", add=_add_twice),
    PodFault("add-with-delete", add=_add_with_delete),
    PodFault("delete-twice", delete=_delete_twice),
)
