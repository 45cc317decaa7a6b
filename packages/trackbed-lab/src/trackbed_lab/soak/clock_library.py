"""libfaketime, the library by which a program's time of day jumps: installed on this machine, or fetched once.

Only programs that are started with it notice; this machine's clock is never set.
"""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from trackbed_lab.vm import apt

PACKAGE = "libfaketime"
_FILE = "faketime/libfaketimeMT.so.1"


class ClockLibraryError(Exception):
    """The library is missing and cannot be fetched; the message says what to do."""


def locate_clock_library(report: Callable[[str], None]) -> Path:
    """Return the path of the library; fetch its Debian package into the cache if need be. Raises ClockLibraryError."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    cache = Path(base) / "trackbed" / PACKAGE
    for folder in (Path("/"), cache):
        for library in folder.glob(f"usr/lib/*/{_FILE}"):
            return library
    if missing := apt.find_missing_tools():
        raise ClockLibraryError(f"clocks cannot jump without {PACKAGE}; install that package ({missing[0]} is missing)")
    report(f"fetching {PACKAGE}")
    try:
        _fetch(cache)
        return next(cache.glob(f"usr/lib/*/{_FILE}"))
    except (apt.AptError, OSError, StopIteration) as error:
        raise ClockLibraryError(f"{PACKAGE} cannot be fetched: {error}; install that package") from error


def _fetch(cache: Path) -> None:
    cache.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache.parent) as name:
        work = Path(name)
        fetcher = apt.prepare_apt(work / "apt", apt.read_sources(), fresh=False)
        fetcher.update()
        for package in fetcher.fetch_without_dependencies([PACKAGE], work / "packages"):
            apt.unpack(package, work / "target")
        (work / "target").rename(cache)
