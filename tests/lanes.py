"""The lanes in which `scripts/test` runs the tests beside each other, each in a process of its own.

    cluster    a fixture starts an API server
    rollout    the same in the folders charts, controller and rollout: what is installed, and what it does node by node
    lab        the marker `needs` or `nightly`, or a fixture that makes namespaces, in the folders lab and fleet: whole
               fabrics and hosts
    kernel     the same in all other folders: root, processes, programs
    pure       all others

In lane pure an audit hook watches the tests: the first process, namespace, netlink or raw socket fails the test, which
has to declare what it needs, `@pytest.mark.needs("processes")`.
"""

import json
import multiprocessing.util
import os
import random
import socket
import sys
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any, NoReturn

import hypothesis
import pytest

from tests.leaks import ABANDONED

LANES = ("pure", "cluster", "rollout", "kernel", "lab")

CLUSTER_FIXTURES = frozenset({"api_server", "chart_server", "cluster", "control_plane_programs", "helm"})
"""Fixtures that start an API server, or bring its programs."""
ROLLOUT_FOLDERS = frozenset({"charts", "controller", "rollout"})
"""Folders whose tests wait for an API server as long as all others that have one."""
KERNEL_FIXTURES = frozenset({"here", "there", "node", "place", "rig"})
"""Fixtures that make namespaces."""
LAB_FOLDERS = frozenset({"lab", "fleet"})
"""Folders whose tests wait so much that a lane of their own halves the time."""
PROGRAM_FIXTURES = CLUSTER_FIXTURES | KERNEL_FIXTURES

_PROCESSES = frozenset({"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen"})
"""Audit events of a new process (https://docs.python.org/3/library/audit_events.html)."""
_NAMESPACES = frozenset({"mount", "setns", "unshare"})
"""Functions of the C library that enter or change a namespace."""
_FAMILIES = frozenset({socket.AF_NETLINK, socket.AF_PACKET})

_refusals: list[str] = []
"""What the running test tried that is not pure, also in a thread or under a handler that hid the refusal."""


def find_lane(item: pytest.Item) -> str:
    """Return the lane of a test, by its fixtures, its marker and its folder."""
    fixtures = getattr(item, "fixturenames", ())
    if not CLUSTER_FIXTURES.isdisjoint(fixtures):
        return "rollout" if item.path.parent.name in ROLLOUT_FOLDERS else "cluster"
    if (
        item.get_closest_marker("needs")
        or item.get_closest_marker("nightly")
        or not KERNEL_FIXTURES.isdisjoint(fixtures)
    ):
        return "lab" if item.path.parent.name in LAB_FOLDERS else "kernel"
    return "pure"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--lane", choices=LANES, help="run the tests of one lane: tests/lanes.py says which these are")
    parser.addoption("--pure", action="store_const", const="pure", dest="lane", help="the same as --lane pure")
    parser.addoption("--result", metavar="FILE", help="write what came of the tests to a JSON file")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Choose a seed before hypothesis looks for one, so that a failure can be repeated."""
    if config.getoption("hypothesis_seed") is None:
        config.option.hypothesis_seed = str(random.randrange(2**32))  # noqa: S311 - no secret


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("lane") == "pure":
        config.pluginmanager.register(_PureLane())
        if not config.getoption("all_tests"):
            hypothesis.settings.load_profile("gate" if os.environ.get("CI") == "true" else "pure")
    if path := config.getoption("result"):
        config.pluginmanager.register(_Result(Path(path)))


def pytest_report_header(config: pytest.Config) -> str:
    return f"lane: {config.getoption('lane') or 'all'}; repeat with --hypothesis-seed={config.option.hypothesis_seed}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if lane := config.getoption("lane"):
        others = [item for item in items if find_lane(item) != lane]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if find_lane(item) == lane]


class _PureLane:
    """Fails a test that is not pure, whatever it made of the refusal."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> None:
        """Watch from here on: pytest-xdist starts workers before, and these start a program."""
        if not session.config.getoption("numprocesses", None):  # the process that starts workers runs no test
            sys.addaudithook(_refuse)
            multiprocessing.util.spawnv_passfds = _refuse_spawn  # type: ignore[assignment]  # raises no audit event

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if _refusals:
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid} is not pure: it {_refusals[0]}; declare @pytest.mark.needs(...)"
            _refusals.clear()
        elif report.when == "call" and report.passed and _claims_to_run(item):
            report.outcome = "failed"
            report.longrepr = "marked support(..., 'ran', ...), and it started no program and opened no netlink socket"
        return report


class _Result:
    """Writes what came of the tests: their names, failures with their texts, reasons of skips."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._passed = 0
        self._failures: dict[str, str] = {}
        self._causes: dict[str, str] = {}
        self._abandoned: list[str] = []
        self._skips: Counter[str] = Counter()
        self._deselected: list[str] = []
        self._nightly: list[str] = []
        self._collected: list[str] = []

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        self._deselected += [item.nodeid for item in items]
        self._nightly += [item.nodeid for item in items if item.get_closest_marker("nightly")]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._collected = [item.nodeid for item in session.items]

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._note_failure(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._note_failure(report)
            if any(name == ABANDONED for name, _ in report.user_properties):
                self._abandoned.append(report.nodeid)
        elif report.skipped and isinstance(report.longrepr, tuple):
            self._skips[report.longrepr[2].removeprefix("Skipped: ")] += 1
        elif report.when == "call":
            self._passed += 1

    def _note_failure(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        """Keep the text of a test's first failure, what the servers said before, and its cause in one line."""
        text = "\n".join([*_format_logs(report), report.longreprtext])
        self._failures.setdefault(report.nodeid, text)
        self._causes.setdefault(report.nodeid, _find_cause(report))

    def pytest_sessionfinish(self) -> None:
        self._path.write_text(
            json.dumps(
                {
                    "collected": self._collected,
                    "deselected": self._deselected,
                    "nightly": self._nightly,
                    "passed": self._passed,
                    "failures": self._failures,
                    "causes": self._causes,
                    "abandoned": self._abandoned,
                    "skips": self._skips,
                }
            )
        )


def _find_cause(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return in one line why a test failed."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text: str = crash.message if crash else report.longreprtext
    lines = [line for line in text.splitlines() if line.strip()]
    return (lines[0] if crash else lines[-1]) if lines else "it says nothing"


def _format_logs(report: pytest.TestReport | pytest.CollectReport) -> list[str]:
    return [f"{title}:\n{text}" for title, text in report.sections if title.startswith("end of ")]


def _claims_to_run(item: pytest.Item) -> bool:
    return any("ran" in marker.args for marker in item.iter_markers("support"))


def _refuse(event: str, args: tuple[Any, ...]) -> None:
    """Fail the running test for an audit event that is not pure."""
    if event in _PROCESSES:
        _fail(f"starts a process ({event})")
    elif event == "socket.__new__" and (args[1] in _FAMILIES or args[2] & socket.SOCK_RAW == socket.SOCK_RAW):
        _fail("opens a netlink or raw socket")
    elif event == "ctypes.dlsym" and args[1] in _NAMESPACES:
        _fail(f"changes a namespace ({args[1]})")


def _refuse_spawn(*_: object) -> NoReturn:
    _fail("starts a process (multiprocessing)")


def _fail(reason: str) -> NoReturn:
    _refusals.append(reason)
    pytest.fail(f"not pure: {reason}", pytrace=False)
