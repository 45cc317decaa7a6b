"""The texts of the catalogue are in the executables of the versions that it names."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.cluster.causes.plugin_runs import find_plugin
from trackbed.cluster.causes.catalogue import load_programs

_SHORT = 6
_ELSEWHERE = {
    "parent-missing-1": "Multus has the first words, macvlan the others",
    "multus-may-not-read-0": "of the API server",
    "multus-daemon-down-0": "of multus-shim, which a daemon needs",
    "shared-plugin-in-exclusive-mode-0": "of k8s-rdma-shared-dev-plugin",
    "rdma-nodes-missing-0": "of k8s-rdma-shared-dev-plugin",
    "spiderpool-networks-changed-0": "of Spiderpool before 1.0, which did not allocate anew",
    "drain-timed-out-2": "the form of a gate's line",
    "eviction-blocked-0": "of the API server",
    "nic-not-supported-1": "of the operator's webhook",
    "policy-selects-no-nic-0": "of the operator's webhook",
    "policy-selects-no-node-0": "of the operator's webhook",
    "whereabouts-kinds-missing-1": "of the API server's client",
    "whereabouts-range-invalid-0": "its quotes are those of a regular expression",
    "whereabouts-range-invalid-1": "of Go's library",
}
"""Texts that are not in the executables, and where they come from."""
_ROWS = [
    pytest.param(program.executables, text, id=f"{cause.id}-{number}")
    for program in load_programs()
    for cause in program.causes
    for number, text in enumerate(cause.texts)
    if program.executables and f"{cause.id}-{number}" not in _ELSEWHERE
]
pytestmark = [
    pytest.mark.needs("processes"),
    pytest.mark.may_skip("other stacks' programs are not part of the project (TRACKBED_PROGRAMS)"),
]


@cache
def read(name: str) -> bytes:
    return find_plugin(name).read_bytes()


def literals(text: str) -> list[str]:
    """The literal parts of a regular expression that no program fills in, longest first."""
    plain = re.sub(r"\(\?[<=!:P][^()]*(?:\([^()]*\)[^()]*)*\)[?*+]*", "\0", text)
    plain = re.sub(r"\[[^\]]*\][*+?]*(?:\{[\d,]+\}\??)?|\\[dwSs][*+]?\??|\.(?:\{[\d,]+\}\??|[*+]\??)", "\0", plain)
    parts = re.split(r'\0|: |"|\(\)|\\"', re.sub(r"\\([^\"])", r"\1", plain))
    return sorted((part.strip("^$?") for part in parts), key=len, reverse=True)


@pytest.mark.parametrize(("executables", "text"), _ROWS)
def test_the_longest_part_of_a_text_is_in_an_executable(executables: tuple[str, ...], text: str) -> None:
    longest = literals(text)[0]
    assert len(longest) >= _SHORT, literals(text)
    assert any(longest.encode() in read(name) for name in executables), longest
