"""What holds for every test: what it may need, and that a machine declared complete may skip nothing.

Mark a test with what it needs, `@pytest.mark.needs("root", "ip")`: where that is missing it is skipped with the reason.
With CI=true in the environment every skip is a failure, however it came about, so that no test can quietly stop running
there. The one exception carries its reason: `@pytest.mark.may_skip("RDMA netlink: no CI machine has it")`.
What takes minutes by nature runs with `--all` alone: `@pytest.mark.nightly("an image is built")`.
"""

import gc
import os
import shutil
import signal
from collections.abc import Generator
from typing import TypeVar

import hypothesis
import pytest

from tests.leaks import LeakWatch

pytest_plugins = ["tests.api_server", "tests.golden", "tests.lanes", "tests.quarantine", "tests.server_logs"]
"""One API server for the whole run, whichever room uses it; the options --rewrite, --lane and --result."""

_Report = TypeVar("_Report", pytest.TestReport, pytest.CollectReport)
_IN_CI = os.environ.get("CI") == "true"

# The same examples at every run where a failure must be reproducible; no deadline, because the machine is shared.
hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, database=None, print_blob=True)
hypothesis.settings.register_profile("here", deadline=None, print_blob=True)
hypothesis.settings.register_profile("pure", hypothesis.settings.get_profile("here"), max_examples=10)
hypothesis.settings.register_profile("gate", hypothesis.settings.get_profile("ci"), max_examples=20)
hypothesis.settings.load_profile("ci" if _IN_CI else "here")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", dest="all_tests", help="run the tests marked nightly too")
    parser.addini(
        "leak_grace", "seconds in which threads and processes may end after the last test of a file", default="20"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("all_tests"):
        nightly = [item for item in items if item.get_closest_marker("nightly")]
        config.hook.pytest_deselected(items=nightly)
        items[:] = [item for item in items if not item.get_closest_marker("nightly")]


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # a shell does so in its background, and programs inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(LeakWatch(float(config.getini("leak_grace"))))
    for line in (
        "needs(*what): what the machine must offer: 'root', 'processes', 'namespaces', or the name of a program",
        "may_skip(reason): this test may be skipped even where the machine is declared complete (CI=true)",
        "support(kind, name, how, where): what of the field this test shows; docs/reference/support.md has the table",
        "nightly(reason): takes minutes by nature, and runs only with --all",
        "slow: takes longer than a second; it has a faster sibling",
    ):
        config.addinivalue_line("markers", line)


def pytest_collection_finish() -> None:
    """Keep the garbage collector from reading thousands of tests at each of its runs."""
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    needs = [need for marker in item.iter_markers("needs") for need in marker.args]
    missing = [need for need in needs if not _is_available(need)]
    if missing:
        pytest.skip(f"needs {' and '.join(missing)}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    allowed = item.get_closest_marker("may_skip") is not None or hasattr(report, "wasxfail")
    return report if allowed else _fail_if_skipped(report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _fail_if_skipped((yield))


def _is_available(need: str) -> bool:
    if need == "root":
        return os.geteuid() == 0
    return need in {"namespaces", "processes"} or shutil.which(need) is not None


def _fail_if_skipped(report: _Report) -> _Report:
    if _IN_CI and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"skipped, but CI=true says that this machine has all it needs: {_reason(report)}"
    return report


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    place = report.longrepr  # of a skip: file, line, reason
    return str(place[2]) if isinstance(place, tuple) else str(place)
