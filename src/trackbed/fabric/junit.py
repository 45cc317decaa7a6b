"""JUnit XML, as CI systems read it: suites of cases that passed, failed or were skipped, for any text.

Source: the schema of the Jenkins xUnit plugin (junit-10.xsd), of which these are the parts that GitLab, Jenkins and
GitHub's report actions show.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple
from xml.sax.saxutils import escape, quoteattr

_INVALID_XML = dict.fromkeys((*range(9), 11, 12, *range(14, 32), *range(0xD800, 0xE000), 65534, 65535), "�")
"""Characters that XML 1.0 does not allow, not even escaped."""


class JunitCase(NamedTuple):
    """A case; the rest is empty where it passed."""

    name: str
    state: Literal["passed", "failed", "skipped"] = "passed"
    message: str = ""
    kind: str = ""
    """Type of a failure."""
    details: str = ""


class JunitSuite(NamedTuple):
    """A suite and its cases; `notes` is shown as the output of the suite."""

    name: str
    cases: Sequence[JunitCase]
    notes: str = ""


def render_junit(name: str, suites: Iterable[JunitSuite]) -> str:
    """Render a report of this name."""
    body = "".join(map(_render_suite, suites))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name={_quote(name)}>\n{body}</testsuites>\n'


def _render_suite(suite: JunitSuite) -> str:
    states = [case.state for case in suite.cases]
    failures, skipped = states.count("failed"), states.count("skipped")
    counts = f'tests="{len(states)}" failures="{failures}" errors="0" skipped="{skipped}"'
    cases = "".join(_render_case(suite.name, case) for case in suite.cases)
    notes = f"    <system-out>{_escape(suite.notes)}</system-out>\n" if suite.notes else ""
    return f"  <testsuite name={_quote(suite.name)} {counts}>\n{cases}{notes}  </testsuite>\n"


def _render_case(suite: str, case: JunitCase) -> str:
    head = f"    <testcase classname={_quote(suite)} name={_quote(case.name)}"
    if case.state == "passed":
        return f"{head}/>\n"
    if case.state == "skipped":
        return f"{head}><skipped message={_quote(case.message)}/></testcase>\n"
    attributes = f"type={_quote(case.kind)} message={_quote(case.message)}"
    return f"{head}><failure {attributes}>{_escape(case.details)}</failure></testcase>\n"


def _quote(text: str) -> str:
    return quoteattr(text.translate(_INVALID_XML))


def _escape(text: str) -> str:
    return escape(text.translate(_INVALID_XML))
