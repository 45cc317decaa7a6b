"""JUnit XML: a test suite for each file, a failed test for each error or warning. Notes are in system-out."""

from collections.abc import Iterable

from trackbed.fabric.junit import JunitCase, JunitSuite
from trackbed.fabric.junit import render_junit as render_suites
from trackbed.lint.finding import LintProblem


def render_junit(problems: Iterable[LintProblem], files: Iterable[str]) -> str:
    """Render a JUnit report. A file without problems is a suite with one passed test."""
    problems_by_file: dict[str, list[LintProblem]] = {file: [] for file in files}
    for problem in problems:
        problems_by_file.setdefault(problem.file, []).append(problem)
    return render_suites("trackbed lint", (_build_suite(*entry) for entry in sorted(problems_by_file.items())))


def _build_suite(file: str, problems: list[LintProblem]) -> JunitSuite:
    failed = [_build_case(problem) for problem in problems if problem.severity != "note"]
    notes = (
        f"{problem.line}: {problem.message} [{problem.rule}]\n" for problem in problems if problem.severity == "note"
    )
    return JunitSuite(file, failed or [JunitCase("lint")], "".join(notes))


def _build_case(problem: LintProblem) -> JunitCase:
    return JunitCase(
        f"{problem.rule} line {problem.line}",
        "failed",
        problem.message,
        problem.severity,
        f"{problem.file}:{problem.line}:{problem.column}\nfix: {problem.fix}",
    )
