"""JUnit XML: a test suite for each file, a failed test for each error or warning. Notes are in system-out."""

from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

from trackbed.lint.finding import LintProblem

_INVALID_XML = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 65534, 65535), "�")
"""Characters that XML 1.0 does not allow, not even escaped."""


def render_junit(problems: Iterable[LintProblem], files: Iterable[str]) -> str:
    """Render a JUnit report. A file without problems is a suite with one passed test."""
    problems_by_file: dict[str, list[LintProblem]] = {file: [] for file in files}
    for problem in problems:
        problems_by_file.setdefault(problem.file, []).append(problem)
    suites = "".join(_render_suite(file, group) for file, group in sorted(problems_by_file.items()))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="trackbed lint">\n{suites}</testsuites>\n'


def _render_suite(file: str, problems: list[LintProblem]) -> str:
    failed = [problem for problem in problems if problem.severity != "note"]
    notes = "".join(
        f"{problem.line}: {problem.message} [{problem.rule}]\n" for problem in problems if problem.severity == "note"
    )
    passed = "" if failed else f'    <testcase classname={_quote_attribute(file)} name="lint"/>\n'
    notes_element = f"    <system-out>{_escape_text(notes)}</system-out>\n" if notes else ""
    attributes = f'name={_quote_attribute(file)} tests="{len(failed) or 1}" failures="{len(failed)}" errors="0"'
    return f"  <testsuite {attributes}>\n{''.join(map(_render_case, failed))}{passed}{notes_element}  </testsuite>\n"


def _render_case(problem: LintProblem) -> str:
    name = _quote_attribute(f"{problem.rule} line {problem.line}")
    body = _escape_text(f"{problem.file}:{problem.line}:{problem.column}\nfix: {problem.fix}")
    attributes = f"type={_quote_attribute(problem.severity)} message={_quote_attribute(problem.message)}"
    failure = f"<failure {attributes}>{body}</failure>"
    return f"    <testcase classname={_quote_attribute(problem.file)} name={name}>{failure}</testcase>\n"


def _quote_attribute(text: str) -> str:
    return quoteattr(text.translate(_INVALID_XML))


def _escape_text(text: str) -> str:
    return escape(text.translate(_INVALID_XML))
