"""Findings that need no host: problems of the Fabric that are faults of the catalogue."""

from collections.abc import Iterable

from trackbed.doctor.catalogue import load_catalogue
from trackbed.doctor.finding import Finding
from trackbed.fabric.model.problems import Problem

_FAULTS = {"name-too-long": "names-too-long"}
"""Code of a problem -> id of the fault."""


def to_findings(problems: Iterable[Problem]) -> list[Finding]:
    """Return findings for the problems that are faults, each with its place in the document as evidence."""
    return [_to_finding(problem, _FAULTS[problem.code]) for problem in problems if problem.code in _FAULTS]


def _to_finding(problem: Problem, fault_id: str) -> Finding:
    fault = load_catalogue()[fault_id]
    evidence = f"{problem.place}: {problem.message}" if problem.place else problem.message
    return Finding(fault.id, fault.step, fault.verdict, fault.title, evidence, fault.cause, fault.fix)
