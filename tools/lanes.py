"""Run all tests in lanes beside each other: `python -m tools.lanes [--all]`, which `scripts/test` calls.

    fetch      what must be fetched or built (tools/prefetch.py)
    pure       at once; it needs a core for three minutes, and leaves it to others
    kernel     at once; most of its time it waits for the kernel
    lab        at once; most of its time it waits for processes
    cluster    when its programs are built; most of its time it waits for API servers
    rollout    likewise, with an API server of its own

Where a build takes minutes, kernel and lab wait for it too: beside them it takes twice as long, and others follow it.
The short lanes, pure and lab, yield to the long ones: the last lane to end would otherwise run alone, on one core.

A few failures of any lane but pure get a second chance in a new process: a test that passes then is reported
as FLAKY and blocks nothing. The end is a table of the lanes, the reasons of skips, and the first failure.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.lanes import LANES
from tools import prefetch

ROOT: Final = Path(__file__).parents[1]
LANE_SECONDS: Final = 4 * 3600
"""Limit for a lane, which takes a quarter of an hour, and with nightly tests some hours."""
SECOND_CHANCES: Final = 10
"""More failures than these are no accident."""
_SERVED: Final = frozenset({"cluster", "rollout"})
"""The lanes that need programs which are built."""
_SHORT: Final = frozenset({"pure", "lab"})
_YIELDING: Final = ("nice", "-n", "5")
"""A third of the weight of the others (sched_prio_to_weight, kernel/sched/core.c)."""
_TAIL: Final = 24
"""Lines of the first failure at the end."""
_WIDTH: Final = 400
"""Characters of a line that names a failure."""


@dataclass(slots=True)
class Result:
    """What came of a lane."""

    lane: str
    status: int = 0
    seconds: float = 0.0
    collected: Sequence[str] = ()
    """The tests of this lane."""
    deselected: Sequence[str] = ()
    """The tests of the others, and what is nightly."""
    nightly: Sequence[str] = ()
    passed: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    """Test -> what servers said, then its text."""
    causes: dict[str, str] = field(default_factory=dict)
    """Test -> its cause in a line."""
    abandoned: Sequence[str] = ()
    """Failures of what a test abandoned."""
    skips: dict[str, int] = field(default_factory=dict)
    """Reason -> number of tests."""
    flaky: dict[str, str] = field(default_factory=dict)
    """Tests that passed at the second try -> the text of the first."""

    @property
    def is_sound(self) -> bool:
        """Whether nothing blocks."""
        return not self.failures


def run_command(title: str, argv: Sequence[str], seconds: float = LANE_SECONDS) -> int:
    """Run a command with each line of its output below a title; return its exit status, 124 at the time limit."""
    with subprocess.Popen(argv, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", start_new_session=True) as process:  # fmt: skip
        timer = threading.Timer(seconds, _kill, [process])
        timer.start()
        try:
            for line in process.stdout or ():
                print(f"{title:7} | {line}", end="", flush=True)
        finally:
            expired = timer.finished.is_set()
            timer.cancel()
    return 124 if expired else process.returncode


def run_lane(
    lane: str, options: Sequence[str], folder: Path, tests: Sequence[str] = (), prefix: Sequence[str] = ()
) -> Result:
    """Run the tests of a lane, or some of them, in a process of its own; `prefix` begins its command."""
    started = time.monotonic()
    place = folder / f"{lane[0]}{'2' if tests else ''}"  # short, since paths of sockets have 107 bytes
    path = place.with_suffix(".json")
    words = ["--lane", lane, "--result", str(path), "--basetemp", str(place), "--color", "no", "--durations", "25"]
    config = ["--config-file", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT)]
    status = run_command(lane, [*prefix, sys.executable, "-m", "pytest", *config, *words, *options, *tests])
    result = Result(lane, status, time.monotonic() - started)
    if path.exists():
        values: dict[str, Any] = json.loads(path.read_text())
        for key, value in values.items():
            setattr(result, key, value)
    if status not in {0, 1} or not path.exists():
        result.failures[f"lane {lane}"] = f"pytest ended with {status}; the reason is above"
    return result


def give_second_chance(result: Result, options: Sequence[str], folder: Path) -> None:
    """Run the few failed tests of a lane again; those that pass are flaky, and no longer failures.

    What tests abandoned is no accident, nor is anything in lane pure.
    """
    tests = [test for test in result.failures if "::" in test and test not in result.abandoned]
    if result.lane == "pure" or not 0 < len(result.failures) <= SECOND_CHANCES or not tests:
        return
    again = run_lane(result.lane, options, folder, tests)
    if again.passed and again.status in {0, 1}:
        for test in set(tests) - set(again.failures):
            result.flaky[test] = result.failures.pop(test)


def run_lanes(options: Sequence[str], folder: Path, *, is_building: bool = False) -> list[Result]:
    """Run prefetch, which takes minutes if `is_building`, and all lanes; return a result for each, prefetch first."""
    results: dict[str, Result] = {}

    def run(lane: str) -> None:
        if lane in _SERVED or (is_building and lane != "pure"):
            fetching.join()
        if lane in _SERVED and results["fetch"].status:
            results[lane] = Result(lane, 1, failures={f"lane {lane}": "not run: its programs cannot be had"})
            return
        results[lane] = run_lane(lane, options, folder, prefix=_YIELDING if lane in _SHORT else [])
        give_second_chance(results[lane], options, folder)

    def fetch() -> None:
        started = time.monotonic()
        problems = prefetch.fetch_missing()
        results["fetch"] = Result("fetch", int(bool(problems)), time.monotonic() - started, failures=problems)

    fetching = threading.Thread(target=fetch)
    workers = [fetching, *(threading.Thread(target=run, args=[lane]) for lane in LANES)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return [results[name] for name in ("fetch", *LANES)]


def find_lost(results: Sequence[Result]) -> str:
    """Return what is wrong with the tests of the lanes, which must be all tests, each once; empty if nothing is."""
    lanes = [result for result in results if result.lane != "fetch"]
    if not all(lane.collected for lane in lanes):
        return ""  # a lane that did not run says so itself
    scopes = {frozenset([*lane.collected, *lane.deselected]) for lane in lanes}
    if len(scopes) > 1:
        strangers = sorted(frozenset.union(*scopes) - frozenset.intersection(*scopes))
        return f"the lanes did not find the same tests: {_list_few(strangers)}"
    counts = Counter(test for lane in lanes for test in lane.collected)
    if twice := [test for test, count in counts.items() if count > 1]:
        return f"in two lanes: {_list_few(twice)}"
    if missing := frozenset[str]().union(*scopes) - counts.keys() - {test for lane in lanes for test in lane.nightly}:
        return f"in no lane: {_list_few(sorted(missing))}"
    return ""


def format_summary(results: Sequence[Result]) -> list[str]:
    """Return the lines of the end: skips, flaky tests, the first failure, the table, the sums."""
    lines = [""]
    skips = sum((Counter(result.skips) for result in results), Counter[str]())
    lines += [f"skipped {number:5}: {reason}"[:150] for reason, number in skips.most_common()]
    for result in results:
        lines += [f"FLAKY {test}\n{_cut(text)}" for test, text in result.flaky.items()]
    texts = [text for result in results for text in result.failures.values()]
    if texts:
        lines += ["", "the first failure:", _cut(texts[0])]
    lines += ["", f"{'lane':8} {'passed':>7} {'failed':>7} {'flaky':>6} {'skipped':>8} {'time':>7}"]
    for result in results:
        counts = f"{result.passed:7} {len(result.failures):7} {len(result.flaky):6} {sum(result.skips.values()):8}"
        lines.append(f"{result.lane:8} {counts} {result.seconds:5.0f} s")
    failures = [(test, result.causes.get(test, text)) for result in results for test, text in result.failures.items()]
    lines += [f"FAILED {test}: {' '.join(cause.split())}"[:_WIDTH] for test, cause in failures[:SECOND_CHANCES]]
    passed = sum(result.passed for result in results)
    return [*lines, f"{passed} passed, {len(failures)} failed, {skips.total()} skipped"]


def main() -> int:
    """Run everything and print the summary; the exit status is 1 if something failed."""
    options = sys.argv[1:]
    os.chdir(ROOT)
    if announcement := prefetch.announce_missing():
        print(announcement, flush=True)
    with tempfile.TemporaryDirectory(prefix="l-") as name:
        results = run_lanes(options, Path(name), is_building=bool(announcement))
    if lost := find_lost(results):
        results[0].failures["lanes"] = lost
    print("\n".join(format_summary(results)))
    return 0 if all(result.is_sound for result in results) else 1


def _list_few(tests: Sequence[str]) -> str:
    return ", ".join(tests[:3]) + (f" and {len(tests) - 3} more" if len(tests) > 3 else "")  # noqa: PLR2004


def _cut(text: str) -> str:
    """Return the last lines of a text."""
    return "\n".join(text.splitlines()[-_TAIL:])


def _kill(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, 9)


if __name__ == "__main__":
    sys.exit(main())
