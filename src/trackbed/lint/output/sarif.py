"""Problems as SARIF 2.1.0 (OASIS), for code review tools."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from trackbed import __version__
from trackbed.lint.catalogue import Rule, load_rules
from trackbed.lint.finding import LintProblem

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def build_sarif(problems: Iterable[LintProblem]) -> dict[str, Any]:
    """Return a SARIF log with one run. The severities of lint are levels of SARIF."""
    problems = list(problems)
    used = [rule for rule in load_rules().values() if any(problem.rule == rule.id for problem in problems)]
    index = {rule.id: number for number, rule in enumerate(used)}
    driver = {"name": "trackbed lint", "version": __version__, "rules": [_build_rule_descriptor(rule) for rule in used]}
    results = [_build_result(problem, index[problem.rule]) for problem in problems]
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _build_rule_descriptor(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.why},
        "help": {"text": rule.fix},
        "defaultConfiguration": {"level": rule.severity},
    }


def _build_result(problem: LintProblem, rule_index: int) -> dict[str, Any]:
    region = {"startLine": problem.line, "startColumn": problem.column}
    place = {"artifactLocation": {"uri": quote(problem.file)}, "region": region}
    return {
        "ruleId": problem.rule,
        "ruleIndex": rule_index,
        "level": problem.severity,
        "message": {"text": f"{problem.message}. {problem.fix}"},
        "locations": [{"physicalLocation": place}],
    }
