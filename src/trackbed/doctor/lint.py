"""Findings that need no host: what the Fabric itself gets wrong, as far as it is a fault of the catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import load_catalogue
from trackbed.doctor.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trackbed.fabric.model.problems import Problem

FAULT_OF = {"name-too-long": "names-too-long"}
"""Code of a problem -> id of the fault."""


def lint(problems: Iterable[Problem]) -> list[Finding]:
    """The problems that are faults, each with its place as evidence."""
    return [_finding(problem, FAULT_OF[problem.code]) for problem in problems if problem.code in FAULT_OF]


def _finding(problem: Problem, fault_id: str) -> Finding:
    fault = load_catalogue()[fault_id]
    evidence = f"{problem.place}: {problem.message}" if problem.place else problem.message
    return Finding(fault.id, fault.step, fault.verdict, fault.title, evidence, fault.cause, fault.fix)
