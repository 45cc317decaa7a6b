"""The outcome of a check: what was checked, the evidence, and what to do.

pass      the machine is as planned
warn      it works now, and is likely to fail later
fail      broken
unknown   it could not be checked: a missing tool, an unreadable file, or an earlier step that is broken. Never pass.
"""

from typing import Literal

import msgspec

Verdict = Literal["pass", "warn", "fail", "unknown"]


class Finding(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One check's outcome on one node, and on one rail where the check is about a rail.

    `id` is the fault's id in the catalogue; `step` is the step of the chain or the layer above it.
    """

    id: str
    step: str
    verdict: Verdict
    title: str
    """What was checked, in a few words."""
    evidence: str = ""
    """What was read, verbatim and short."""
    cause: str = ""
    """Why this happens."""
    fix: str = ""
    """What to do next: a command, or where to look."""
    node: str | None = None
    rail: int | None = None
    because: str | None = None
    """Id of an earlier finding on this rail that explains this one, or that prevented the check."""


BROKEN: frozenset[Verdict] = frozenset({"warn", "fail"})
"""Verdicts that make doctor exit with 1."""
