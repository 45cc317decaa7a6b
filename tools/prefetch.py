"""Fetch and build what the tests need, before any of them counts.

Each part is tried three times, so that a registry's bad moment is no verdict on a change.
"""

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from trackbed_lab.kubernetes import build
from trackbed_lab.kubernetes.programs import CNITOOL, CONTROL_PLANE, HELM, SHIM, Program

from tests.cluster.causes.plugin_runs import STANDARD

PAUSES: Final = (5, 30, 120)
"""Seconds before each new try."""
_MODULES: Final = Path(__file__).parents[1] / "tests" / "crds"
_MODULES_SECONDS: Final = 300


class Part(NamedTuple):
    """Something that tests need and the checkout does not have."""

    name: str
    seconds: int
    """Time that it takes without any cache on two idle cores."""
    is_ready: Callable[[], bool]
    fetch: Callable[[], object]


def list_parts() -> list[Part]:
    """Return the parts, those that other lanes wait for first."""
    return [
        _describe_programs("CNI executable", 10, SHIM),
        _describe_programs("cnitool", 15, CNITOOL),
        _describe_programs("standard CNI plugins", 15, STANDARD),
        _describe_programs("Kubernetes control plane", 480, CONTROL_PLANE),
        _describe_programs("helm", 90, HELM),
        Part("modules with CRDs", 20, lambda: False, _fetch_modules),
    ]


def fetch_part(part: Part, sleep: Callable[[float], None] = time.sleep) -> str:
    """Fetch a part; return why it could not be had, empty if it could."""
    problem = ""
    for pause in (0, *PAUSES[:2]):
        sleep(pause)
        try:
            part.fetch()
        except (build.BuildError, OSError, subprocess.SubprocessError) as error:
            problem = str(error)
            print(f"prefetch: {part.name}: {problem}; trying again", flush=True)
        else:
            return ""
    return problem


def _describe_programs(name: str, seconds: int, programs: Sequence[Program]) -> Part:
    return Part(
        name,
        seconds,
        lambda: build.are_built(programs),
        lambda: build.build_programs(programs, lambda line: print(f"prefetch: {line}", flush=True)),
    )


def _fetch_modules() -> None:
    argv = ["go", "mod", "download"]
    subprocess.run(argv, cwd=_MODULES, check=True, timeout=_MODULES_SECONDS, capture_output=True)


def announce_missing() -> str:
    """Return a line about what takes minutes to build, once; empty if nothing does."""
    missing = [part for part in list_parts() if _is_missing(part)]
    slow = [part.name for part in missing if part.seconds > _MINUTE]
    minutes = round(sum(part.seconds for part in missing) / _MINUTE)
    return f"to build, once, some {minutes} minutes on two cores: {', '.join(slow)}" if slow else ""


def fetch_missing() -> dict[str, str]:
    """Fetch all parts; return why those that could not be had could not."""
    problems = {part.name: fetch_part(part) for part in list_parts() if _is_missing(part)}
    return {
        name: f"cannot be had, which is no fault of the change that is tested: {problem}"
        for name, problem in problems.items()
        if problem
    }


def _is_missing(part: Part) -> bool:
    try:
        return not part.is_ready()
    except build.BuildError:
        return True  # no compiler: fetching says so


_MINUTE: Final = 60
