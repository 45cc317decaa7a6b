"""Run the pure half of the tests: `scripts/test --pure`.

A test is pure when it needs no root, namespace, API server, built program or other process. The marker `needs` and the
fixtures below say so beforehand. For every other test an audit hook watches what the test does: the first process,
namespace, netlink socket or raw socket skips it. Such a test counts as `not pure`, also with CI=true.
"""

import socket
import sys
from collections.abc import Generator
from typing import Any

import hypothesis
import pytest

PROGRAM_FIXTURES = frozenset({"api_server", "chart_server", "helm", "here", "there"})
"""Fixtures that start programs or make namespaces."""
_PROCESSES = frozenset({"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen"})
"""Audit events of a new process (https://docs.python.org/3/library/audit_events.html)."""
_NAMESPACES = frozenset({"mount", "setns", "unshare"})
"""Functions of the C library that enter or change a namespace."""
_FAMILIES = frozenset({socket.AF_NETLINK, socket.AF_PACKET})
_NOT_PURE = pytest.StashKey[bool]()
_REASON = "not pure: "

_refusals: list[str] = []
"""What the running test tried that is not pure, also in a thread or under a handler that hid the skip."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pure", action="store_true", help="run the pure half: tests/pure.py says what that is")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("pure"):
        config.pluginmanager.register(_PureHalf())
        sys.addaudithook(_refuse)
        hypothesis.settings.load_profile("pure")


class _PureHalf:
    """Deselects tests that are not pure by their markers, and reports those that turn out not to be."""

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        pure = [item for item in items if not _is_marked(item)]
        config.hook.pytest_deselected(items=[item for item in items if _is_marked(item)])
        items[:] = pure

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        # pytest raises the skip of a shared fixture again for each of its tests.
        if _refusals or (call.excinfo and str(call.excinfo.value).startswith(_REASON)):
            item.stash[_NOT_PURE] = True
            _refusals.clear()
        report = yield
        if _NOT_PURE in item.stash and not report.passed:
            report.outcome = "skipped"
            report.longrepr = (str(item.path), 0, _REASON)
            report.keywords = {**report.keywords, "not_pure": 1}
        elif report.when == "call" and report.passed and _claims_to_run(item):
            report.outcome = "failed"
            report.longrepr = "marked support(..., 'ran', ...), and it started no program and opened no netlink socket"
        return report

    def pytest_report_teststatus(self, report: pytest.TestReport | pytest.CollectReport) -> tuple[str, str, str] | None:
        return ("not pure", "-", "NOT PURE") if "not_pure" in getattr(report, "keywords", ()) else None


def _is_marked(item: pytest.Item) -> bool:
    fixtures = getattr(item, "fixturenames", ())
    return item.get_closest_marker("needs") is not None or not PROGRAM_FIXTURES.isdisjoint(fixtures)


def _claims_to_run(item: pytest.Item) -> bool:
    return any("ran" in marker.args for marker in item.iter_markers("support"))


def _refuse(event: str, args: tuple[Any, ...]) -> None:
    """Skip the running test for an audit event that is not pure."""
    if event in _PROCESSES:
        _skip(f"starts a process ({event})")
    elif event == "socket.__new__" and (args[1] in _FAMILIES or args[2] & socket.SOCK_RAW == socket.SOCK_RAW):
        _skip("opens a netlink or raw socket")
    elif event == "ctypes.dlsym" and args[1] in _NAMESPACES:
        _skip(f"changes a namespace ({args[1]})")


def _skip(reason: str) -> None:
    _refusals.append(reason)
    pytest.skip(_REASON + reason)
