"""The outcome of a check: its verdict, the evidence, and the fix.

pass      the host is as planned
warn      works now, but is likely to fail later
fail      broken
unknown   could not be checked: a tool is missing, a file is unreadable, or an earlier step is broken
"""

from typing import Literal

import msgspec

Verdict = Literal["pass", "warn", "fail", "unknown"]


class FaultEnd(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """One end of a fault between nodes: a node, or its port on a rail."""

    node: str
    rail: int | None = None

    def __str__(self) -> str:
        return self.node if self.rail is None else f"{self.node} rail {self.rail}"


class Finding(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The outcome of one check on a node, or on a rail of the node.

    `id` is the fault's id in the catalogue; `step` is the step of the chain or the layer above it.
    """

    id: str
    step: str
    verdict: Verdict
    title: str
    """The expected state, in a few words."""
    evidence: str = ""
    """What was read, verbatim and short."""
    cause: str = ""
    """Why the fault occurs."""
    fix: str = ""
    """What to do next: a command, or where to look."""
    node: str | None = None
    rail: int | None = None
    because: str | None = None
    """Id of an earlier finding on this rail that explains this one, or that prevented the check."""
    ends: tuple[FaultEnd, ...] = ()
    """All ends of a fault between nodes, the first being that of `node` and `rail`; empty for a fault of one node."""


BROKEN: frozenset[Verdict] = frozenset({"warn", "fail"})
"""Verdicts that make doctor exit with 1."""
