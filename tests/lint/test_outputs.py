"""Outputs for machines: complete, valid, and safe for any text."""

import xml.etree.ElementTree as ET
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from trackbed.lint.finding import LintProblem
from trackbed.lint.output.junit import render_junit
from trackbed.lint.output.sarif import build_sarif
from trackbed.lint.output.text import iter_report_lines

_PROBLEMS = (
    LintProblem("host-bits", "error", "a b.yaml", 7, 3, "10.1.7.0/16 <&> \x01", "Write it.", "IPPool rail0"),
    LintProblem("host-bits", "error", "a b.yaml", 9, 3, "10.2.7.0/16", "Write it.", "IPPool rail1"),
    LintProblem("route-redundant", "note", "a b.yaml", 8, 3, "inside", "Remove it."),
)

_TEXT: dict[str, Any] = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
_LEVEL = {"enum": ["none", "note", "warning", "error"]}
_SARIF: dict[str, Any] = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["tool"],
                "properties": {
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name"],
                                "properties": {
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": {"required": ["id"], "properties": {"help": _TEXT}},
                                    }
                                },
                            }
                        },
                    },
                    "results": {
                        "type": "array",
                        "items": {
                            "required": ["message"],
                            "properties": {
                                "message": _TEXT,
                                "level": _LEVEL,
                                "ruleIndex": {"type": "integer", "minimum": 0},
                                "locations": {
                                    "type": "array",
                                    "items": {
                                        "properties": {
                                            "physicalLocation": {
                                                "required": ["artifactLocation"],
                                                "properties": {
                                                    "artifactLocation": {
                                                        "properties": {
                                                            "uri": {"type": "string", "format": "uri-reference"}
                                                        }
                                                    },
                                                    "region": {
                                                        "properties": {
                                                            "startLine": {"type": "integer", "minimum": 1},
                                                            "startColumn": {"type": "integer", "minimum": 1},
                                                        }
                                                    },
                                                },
                                            }
                                        }
                                    },
                                },
                            },
                        },
                    },
                },
            },
        },
    },
}
"""What SARIF 2.1.0 requires of the parts that are written here, after the OASIS schema."""


def test_sarif_has_what_the_standard_requires() -> None:
    made = build_sarif(_PROBLEMS)
    validator = jsonschema_rs.Draft202012Validator(_SARIF, validate_formats=True)
    assert [error.message for error in validator.iter_errors(made)] == []


def test_each_sarif_result_points_at_its_rule_and_place() -> None:
    (run,) = build_sarif(_PROBLEMS)["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert [rules[result["ruleIndex"]] for result in run["results"]] == [problem.rule for problem in _PROBLEMS]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "a%20b.yaml"}, "region": {"startLine": 7, "startColumn": 3}}


def test_junit_counts_errors_and_keeps_notes_as_output() -> None:
    root = ET.fromstring(render_junit(_PROBLEMS, ["a b.yaml", "sound.yaml"]))  # noqa: S314 - our own text
    suites = {suite.get("name"): suite for suite in root}
    assert (suites["a b.yaml"].get("tests"), suites["a b.yaml"].get("failures")) == ("2", "2")
    assert "inside" in (suites["a b.yaml"].findtext("system-out") or "")
    assert [case.get("name") for case in suites["sound.yaml"]] == ["lint"]


def test_text_is_grouped_by_file_and_says_each_fix_once() -> None:
    assert list(iter_report_lines(_PROBLEMS[1:])) == [
        "a b.yaml",
        "  9:3  error    10.2.7.0/16  [host-bits]",
        "      fix: Write it.",
        "  8:3  note     inside  [route-redundant]",
        "      fix: Remove it.",
        "",
        "1 error, 0 warnings, 1 note",
    ]


@pytest.mark.parametrize(
    ("lines", "also"),
    [
        ([7], ""),
        ([7, 9], " (also on line 9)"),
        ([7, *range(9, 20)], " (also on lines 9, 10, 11, 12, 13, 14, 15, 16 and 3 more)"),
    ],
)
def test_equal_problems_of_a_file_share_a_line_of_text(lines: list[int], also: str) -> None:
    problem = LintProblem("unknown-kind", "error", "a.yaml", 7, 3, "Role is gone", "Write it.")
    other = LintProblem("unknown-kind", "error", "b.yaml", 7, 3, "Role is gone", "Write it.")
    text = list(iter_report_lines([*(msgspec.structs.replace(problem, line=line) for line in lines), other]))
    assert text[1] == f"  7:3  error    Role is gone{also}  [unknown-kind]"
    assert text[-2:] == ["", f"{len(lines) + 1} errors, 0 warnings, 0 notes"]
