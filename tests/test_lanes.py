"""How the tests run: lanes that are kept, what is abandoned and blamed on its file, and what the end says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.lanes import LANES
from tests.server_logs import iter_log_ends
from tests.waiting import wait_until
from tools import lanes, prefetch
from tools.lanes import Result, find_lost, format_summary, give_second_chance

ROOT = Path(__file__).parents[1]

EXAMPLES = {
    "pure": "def test(): assert 1 + 1 == 2",
    "process": "import subprocess\ndef test(): subprocess.run(['true'], check=True)",
    "hidden": "import subprocess\ndef test():\n    try: subprocess.run(['true'])\n    finally: raise ValueError",
    "spawned": (
        "import multiprocessing\ndef test():\n    multiprocessing.get_context('spawn').Process(target=print).start()"
    ),
    "thread": "import os, threading\ndef test():\n    threading.Thread(target=os.fork).start()",
    "netlink": "import socket\ndef test(): socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close()",
    "loopback": "import socket\ndef test(): socket.create_server(('127.0.0.1', 0)).close()",
    "needs": "import pytest\n@pytest.mark.needs('sh')\ndef test(): pass",
    "nightly": "import pytest\n@pytest.mark.nightly('minutes')\ndef test(): pass",
    "server": "import pytest\n@pytest.fixture\ndef api_server(): pass\ndef test(api_server): pass",
    "fork": (
        "import os, pytest\n@pytest.fixture(scope='module')\ndef child(): return os.fork()\n"
        "def test_first(child): pass\ndef test_second(child): pass"
    ),
}
ABANDONED = {
    "task": "loop = asyncio.new_event_loop()\n    loop.create_task(asyncio.sleep(9))\n    loop.close()",
    "server": "asyncio.new_event_loop().run_until_complete(asyncio.start_server(print, '127.0.0.1', 0))",
    "thread": "threading.Thread(target=threading.Event().wait, args=(60,), daemon=True).start()",
    "socket": "socket.socket().bind(('127.0.0.1', 0))",
    "process": "os.posix_spawn('/bin/sleep', ['sleep', '5'], {})",
    "popen": "subprocess.Popen(['sleep', '5'])",
}


def run_pytest(folder: Path, *options: str) -> str:
    """Run the tests of a folder under our conftest, as in CI; return what pytest prints."""
    words = ["-c", "/dev/null", "--rootdir", str(folder), "-W", "error", "-p", "tests.conftest", "-v", *options]
    command = [sys.executable, "-m", "pytest", *words, "--import-mode=importlib", str(folder)]
    environment = {**os.environ, "CI": "true"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    return done.stdout


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lanes")
    for name, source in EXAMPLES.items():
        (folder / f"test_{name}.py").write_text(f"{source}\n")
    (folder / "charts").mkdir()
    (folder / "charts" / "test_installed.py").write_text(f"{EXAMPLES['server']}\n")
    (folder / "lab").mkdir()
    (folder / "lab" / "test_hosts.py").write_text(f"{EXAMPLES['needs']}\n")
    return folder


@pytest.fixture(scope="module")
def pure_run(examples: Path) -> str:
    return run_pytest(examples, "--pure", "--result", str(examples / "result.json"))


@pytest.mark.needs("processes")
@pytest.mark.parametrize("name", ["pure", "loopback"])
def test_what_needs_no_other_process_is_pure(pure_run: str, name: str) -> None:
    assert f"test_{name}.py::test PASSED" in pure_run


@pytest.mark.needs("processes")
@pytest.mark.parametrize(
    "name",
    [
        *("process::test", "spawned::test", "hidden::test", "thread::test", "netlink::test"),
        *("fork::test_first", "fork::test_second"),
    ],
)
def test_what_starts_a_process_or_opens_netlink_fails_in_the_pure_lane(pure_run: str, name: str) -> None:
    file = f"test_{name.replace('::', '.py::')}"
    assert f"{file} FAILED" in pure_run or f"{file} ERROR" in pure_run


@pytest.mark.needs("processes")
def test_the_lanes_and_what_is_nightly_add_up_to_all(examples: Path, pure_run: str) -> None:
    results = [json.loads((examples / "result.json").read_text())]
    for lane in LANES[1:]:
        run_pytest(examples, "--lane", lane, "--result", str(examples / f"{lane}.json"))
        results.append(json.loads((examples / f"{lane}.json").read_text()))
    assert [len(result["collected"]) for result in results] == [9, 1, 1, 1, 1]
    assert {len(result["collected"] + result["deselected"]) for result in results} == {14}
    assert [len(result["nightly"]) for result in results] == [1] * 5
    assert "9 selected" in pure_run or "5 deselected" in pure_run
    run_pytest(examples, "--all", "--lane", "kernel", "--result", str(examples / "all.json"))
    assert json.loads((examples / "all.json").read_text())["passed"] == 2


@pytest.mark.needs("processes")
@pytest.mark.parametrize("name", ABANDONED)
def test_what_a_file_abandons_fails_this_file_and_no_other(tmp_path: Path, name: str) -> None:
    head = "import asyncio, os, socket, subprocess, threading\n"
    (tmp_path / "test_1.py").write_text(f"{head}def test():\n    {ABANDONED[name]}\n")
    (tmp_path / "test_2.py").write_text("import gc\ndef test(): gc.collect()\n")
    output = run_pytest(tmp_path, "-o", "leak_grace=0", "--result", str(tmp_path / "result.json"))
    assert re.search(r"test_1.py::test (ERROR|FAILED)", output)
    assert "test_2.py::test PASSED" in output
    assert not re.search(r"test_2.py::test (ERROR|FAILED)", output)
    assert json.loads((tmp_path / "result.json").read_text())["abandoned"] == ["test_1.py::test"]


def test_a_failed_test_shows_the_end_of_the_logs_that_were_written_since(tmp_path: Path) -> None:
    (tmp_path / "old.log").write_text("long ago")
    os.utime(tmp_path / "old.log", (1000, 1000))
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "etcd.log").write_text("".join(f"line {number}\n" for number in range(100)))
    [(title, text)] = iter_log_ends(tmp_path, 2000)
    assert title == "end of sub/etcd.log"
    assert text.splitlines() == [f"line {number}" for number in range(70, 100)]


@pytest.mark.parametrize(
    ("owned", "problem"),
    [
        ([("ab", "cd"), ("cd", "ab")], ""),
        ([("ab", "cdn"), ("cd", "abn")], ""),
        ([("ab", "cd"), ("cde", "ab")], "the lanes did not find the same tests: e"),
        ([("ab", "cd"), ("bcd", "a")], "in two lanes: b"),
        ([("ab", "cd"), ("c", "abd")], "in no lane: d"),
    ],
)
def test_lanes_hold_every_test_once(owned: list[tuple[str, str]], problem: str) -> None:
    results = [Result(f"{number}", 0, 0.0, tests, others, "n") for number, (tests, others) in enumerate(owned)]
    assert find_lost(results) == problem


def test_what_a_test_abandoned_gets_no_second_chance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    again: list[Sequence[str]] = []

    def run(lane: str, _options: object, _folder: object, tests: Sequence[str]) -> Result:
        again.append(tests)
        return Result(lane, passed=1)

    monkeypatch.setattr(lanes, "run_lane", run)
    failures = {"test_a.py::test": "timed out", "test_b.py::test": "a task was abandoned"}
    result = Result("kernel", failures=failures, abandoned=["test_b.py::test"])
    give_second_chance(result, [], tmp_path)
    assert again == [["test_a.py::test"]]
    assert list(result.failures) == ["test_b.py::test"]
    assert list(result.flaky) == ["test_a.py::test"]


@pytest.mark.parametrize("is_building", [False, True])
def test_beside_a_long_build_there_is_the_pure_lane_alone_and_short_lanes_yield(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_building: bool
) -> None:
    begun: list[tuple[str, bool, Sequence[str]]] = []
    built = threading.Event()

    def run(lane: str, *_: object, prefix: Sequence[str] = ()) -> Result:
        begun.append((lane, built.is_set(), prefix))
        return Result(lane)

    def fetch() -> dict[str, str]:
        wait_until(lambda: len(begun) == (1 if is_building else 3), "the lanes that need no build have begun")
        built.set()
        return {}

    monkeypatch.setattr(lanes, "run_lane", run)
    monkeypatch.setattr(prefetch, "fetch_missing", fetch)
    lanes.run_lanes([], tmp_path, is_building=is_building)
    assert sorted(begun) == [
        ("cluster", True, []),
        ("kernel", is_building, []),
        ("lab", is_building, ("nice", "-n", "5")),
        ("pure", False, ("nice", "-n", "5")),
        ("rollout", True, []),
    ]


def test_the_end_names_the_first_failure_what_was_flaky_and_why_tests_were_skipped() -> None:
    text = "\n".join(f"line {number}" for number in range(100))
    results = [
        Result("pure", 1, 0, passed=3, failures={"test_a.py::test": text}, causes={"test_a.py::test": "it is red"}),
        Result("kernel", passed=4, flaky={"test_b.py::test": "timed out"}, skips={"needs wrench": 2}),
    ]
    lines = "\n".join(format_summary(results)).splitlines()
    assert lines[-2:] == ["FAILED test_a.py::test: it is red", "7 passed, 1 failed, 2 skipped"]
    assert "line 99" in lines
    assert "line 9" not in lines
    assert "FLAKY test_b.py::test" in lines
    assert "skipped     2: needs wrench" in lines
    assert len(lines) - lines.index("the first failure:") < 40


@pytest.mark.parametrize(("failures", "problem"), [(2, ""), (3, "no route to the registry")])
def test_a_registry_is_asked_three_times(failures: int, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    tries: list[float] = []

    def fetch() -> None:
        if len(tries) <= failures:
            raise OSError("no route to the registry")

    part = prefetch.Part("helm", 1, lambda: False, fetch)
    assert prefetch.fetch_part(part, tries.append) == problem
    assert tries == [0, 5, 30]
    assert "helm: no route to the registry" in capsys.readouterr().out
