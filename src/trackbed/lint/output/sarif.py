"""SARIF 2.1.0 (OASIS): what code review tools read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from trackbed import __version__
from trackbed.lint.catalogue import Rule, catalogue
from trackbed.lint.finding import Finding

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def sarif(findings: Iterable[Finding]) -> dict[str, Any]:
    """One run; severities have SARIF's own names already."""
    found = list(findings)
    used = [rule for rule in catalogue().values() if any(one.rule == rule.id for one in found)]
    index = {rule.id: number for number, rule in enumerate(used)}
    driver = {"name": "trackbed lint", "version": __version__, "rules": [_rule(rule) for rule in used]}
    results = [_result(one, index[one.rule]) for one in found]
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.why},
        "help": {"text": rule.fix},
        "defaultConfiguration": {"level": rule.severity},
    }


def _result(one: Finding, index: int) -> dict[str, Any]:
    region = {"startLine": one.line, "startColumn": one.column}
    place = {"artifactLocation": {"uri": quote(one.file)}, "region": region}
    return {
        "ruleId": one.rule,
        "ruleIndex": index,
        "level": one.severity,
        "message": {"text": f"{one.message}. {one.fix}"},
        "locations": [{"physicalLocation": place}],
    }
