"""Show with a failed test the end of each log that servers wrote while it ran: API servers, sshd, labs, agents."""

import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

_STARTED = pytest.StashKey[float]()
_LINES = 30
_BYTES = 16384
_MOST_LOGS = 5


def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_STARTED] = time.time()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and report.when != "teardown":
        base = item.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined] # noqa: SLF001 - has no accessor
        report.sections += list(iter_log_ends(base, item.stash.get(_STARTED, time.time())))
    return report


def iter_log_ends(folder: Path, since: float) -> Iterator[tuple[str, str]]:
    """Yield name and last lines of the logs below a folder that were written after a time, newest first."""
    times = {}
    for path in folder.rglob("*.log"):
        with suppress(OSError):
            times[path] = path.stat().st_mtime
    recent = sorted((path for path in times if times[path] >= since), key=times.__getitem__, reverse=True)
    for path in recent[:_MOST_LOGS]:
        with suppress(OSError), path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - _BYTES))
            lines = log.read().decode(errors="replace").splitlines()[-_LINES:]
            yield f"end of {path.relative_to(folder)}", "\n".join(line[:300] for line in lines)
