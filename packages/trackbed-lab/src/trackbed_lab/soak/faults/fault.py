"""The two sorts of faults: of the site, which heal after some seconds, and of one pod, which replace its ADD or DEL."""

import random
from collections.abc import Callable
from typing import NamedTuple

from trackbed_lab.soak.pods import CniOutcome, SoakPod
from trackbed_lab.soak.site import Site


class Injection(NamedTuple):
    """A fault that was injected: what was done, and how and after how many seconds it heals."""

    description: str
    seconds: float
    heal: Callable[[], None]


class SiteFault(NamedTuple):
    """A fault of the site. `inject` returns None where the fault cannot be injected at the moment."""

    id: str
    inject: Callable[[Site, random.Random], Injection | None]
    pause_seconds: float = 0.0
    """Least time from one injection to the next."""


def _add(pod: SoakPod, _: random.Random) -> CniOutcome:
    return pod.add()


def _delete(pod: SoakPod, _: random.Random) -> None:
    pod.delete()


class PodFault(NamedTuple):
    """A fault of one pod; `add` returns None if nobody can know what the pod has."""

    id: str
    add: Callable[[SoakPod, random.Random], CniOutcome | None] = _add
    delete: Callable[[SoakPod, random.Random], None] = _delete
    mode: str | None = None
    """The only mode in which the fault can be injected; None for all."""


NO_FAULT = PodFault("none")
