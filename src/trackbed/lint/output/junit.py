"""JUnit XML: one test suite for each file, one failed test for each error or warning; notes are output only."""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

from trackbed.lint.finding import Finding

_NOT_XML = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 65534, 65535), "�")
"""Characters that XML 1.0 cannot hold, whatever the escape."""


def junit(findings: Iterable[Finding], files: Iterable[str]) -> str:
    """The report; a file without findings is a suite with one passed test."""
    found: dict[str, list[Finding]] = {file: [] for file in files}
    for one in findings:
        found.setdefault(one.file, []).append(one)
    suites = "".join(_suite(file, group) for file, group in sorted(found.items()))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="trackbed lint">\n{suites}</testsuites>\n'


def _suite(file: str, group: list[Finding]) -> str:
    failed = [one for one in group if one.severity != "note"]
    notes = "".join(f"{one.line}: {one.message} [{one.rule}]\n" for one in group if one.severity == "note")
    passed = "" if failed else f'    <testcase classname={_attribute(file)} name="lint"/>\n'
    out = f"    <system-out>{_text(notes)}</system-out>\n" if notes else ""
    head = f'name={_attribute(file)} tests="{len(failed) or 1}" failures="{len(failed)}" errors="0"'
    return f"  <testsuite {head}>\n{''.join(map(_case, failed))}{passed}{out}  </testsuite>\n"


def _case(one: Finding) -> str:
    name = _attribute(f"{one.rule} line {one.line}")
    body = _text(f"{one.file}:{one.line}:{one.column}\nfix: {one.fix}")
    failure = f"<failure type={_attribute(one.severity)} message={_attribute(one.message)}>{body}</failure>"
    return f"    <testcase classname={_attribute(one.file)} name={name}>{failure}</testcase>\n"


def _attribute(text: str) -> str:
    return quoteattr(text.translate(_NOT_XML))


def _text(text: str) -> str:
    return escape(text.translate(_NOT_XML))
