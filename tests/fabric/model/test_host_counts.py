"""Host ranges are counted before they are expanded: no text takes long, or much memory."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from tests.cluster.stacks.sites import HEAD
from trackbed.fabric.model.load import build_fabric_from_resource
from trackbed.fabric.model.problems import SpecError

pytestmark = pytest.mark.needs("processes")

CPU_SECONDS, BYTES = 3, 512 << 20
LONG = {
    "eight groups at their limit": [f"{letter}[0-99999]" for letter in "abcdefgh"],
    "a thousand groups of thousands": [f"g{number}n[0-9999]" for number in range(1000)],
    "commas": ["a," * 65_536],
    "names": [",".join(f"gpu{number}" for number in range(18_000))],
    "commas in brackets": ["a[" + "1," * 65_000 + "1]"],
    "brackets": ["[0]" * 43_000],
    "brackets that stay open": ["a[1," * 32_000],
    "brackets that multiply": ["a[1-2]" * 20_000],
    "digits": ["0" * 131_072],
}


def build(texts: list[str]) -> str:
    """Return what is wrong with a Fabric of these groups; empty if nothing is."""
    spec = {"nodes": [{"hosts": text} for text in texts], "rails": 1, "addressing": {"scheme": "none"}}
    try:
        build_fabric_from_resource({**HEAD, "metadata": {"name": "long"}, "spec": spec})
    except SpecError as error:
        return str(error)
    return ""


def limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))


@pytest.mark.parametrize("name", LONG)
def test_a_range_of_any_length_is_judged_quickly_and_in_little_memory(name: str) -> None:
    program = f"from {__name__} import LONG, build; print(len(build(LONG[{name!r}])))"
    done = subprocess.run(
        [sys.executable, "-c", program], preexec_fn=limit, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) < 1000
