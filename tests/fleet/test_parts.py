"""Order, log, outcome and archive, each by itself."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from trackbed.fleet import archive
from trackbed.fleet.boot import CUT_SHORT, NO_PYTHON
from trackbed.fleet.log import LogBusyError, open_log
from trackbed.fleet.order import Order, compute_batch_size, run_batches, split_batches
from trackbed.fleet.outcome import Outcome, explain_oversized_output, explain_unread, judge_output
from trackbed.fleet.task import HostTask, Verb

NAMES = [f"n{number}" for number in range(10)]


@pytest.mark.parametrize(
    ("batch", "total", "size"),
    [("10%", 512, 52), ("10%", 3, 1), ("100%", 7, 7), ("12", 512, 12), ("1%", 1, 1)],
)
def test_a_batch_is_a_number_or_a_share_rounded_up(batch: str, total: int, size: int) -> None:
    assert compute_batch_size(batch, total) == size


@pytest.mark.parametrize("batch", ["0", "0%", "101%", "", "-1", "ten", "1.5", "%"])
def test_a_batch_that_is_none_is_refused(batch: str) -> None:
    with pytest.raises(ValueError, match="write a number of hosts"):
        compute_batch_size(batch, 10)


def test_canaries_come_first_and_every_host_once() -> None:
    cut = split_batches(NAMES, Order("4", canary=1))
    assert [len(batch) for batch in cut] == [1, 4, 4, 1]
    assert [name for batch in cut for name in batch] == NAMES


@pytest.mark.parametrize(
    ("order", "failing", "done"),
    [
        (Order("2", 0, 0), set[str](), 10),
        (Order("2", 0, 0), {"n3"}, 4),
        (Order("2", 0, 1), {"n3"}, 10),
        (Order("2", 0, 1), {"n3", "n4"}, 6),
        (Order("2", 1, 9), {"n0"}, 1),
    ],
    ids=["all good", "one of none allowed", "one allowed", "one too many", "the canary, whatever is allowed"],
)
def test_no_batch_begins_after_too_many_failures(order: Order, failing: set[str], done: int) -> None:
    def do(batch: tuple[str, ...]) -> list[Outcome]:
        return [Outcome(name, "failed" if name in failing else "applied", "") for name in batch]

    assert sum(len(batch) for batch, begun in run_batches(NAMES, order, do) if begun) == done


@pytest.mark.parametrize(
    ("status", "output", "errors", "kind"),
    [
        (0, ["Welcome", "trackbed began", 'trackbed {"outcome": "same"}'], [], "same"),
        (0, ["trackbed began", 'trackbed {"outcome": "undone", "message": "restored"}'], [], "undone"),
        (0, ["trackbed began", 'trackbed {"outcome": "undone"}'], [], "garbled"),
        (0, ["trackbed began", "trackbed {torn"], [], "garbled"),
        (0, ["trackbed began", 'trackbed {"outcome": "left"}'], [], "garbled"),
        (0, ["trackbed began", 'trackbed {"outcome": "applied", "changes": [1]}'], [], "garbled"),
        (0, ["trackbed began", 'trackbed {"outcome": "same", "changes": 1}'], [], "garbled"),
        (0, ["trackbed began", 'trackbed {"a": ' + "[" * 10**5], [], "garbled"),
        (None, [], [], "timeout"),
        (None, ["trackbed began"], [], "timeout"),
        (137, ["trackbed began"], [], "died"),
        (255, ["trackbed began"], ["Connection closed"], "died"),
        (255, [], ["Connection refused"], "unreachable"),
        (NO_PYTHON, [], [], "no-python"),
        (CUT_SHORT, [], [], "cut-short"),
        (1, [], ["sudo: a password is required"], "no-sudo"),
        (1, [], ["/bin/sh: oops"], "failed"),
    ],
)
def test_what_a_host_said_is_judged(status: int | None, output: list[str], errors: list[str], kind: str) -> None:
    outcome = judge_output("n1", "apply", status, output, errors)
    assert (outcome.kind, "\n" in outcome.message, bool(outcome.message)) == (kind, False, True)


UNREAD: dict[str, tuple[int | None, list[str], list[str], str]] = {
    "hangs": (None, [], [], "it did not answer in time; it was not read; look at the host, or give it longer with"),
    "slow": (None, ["trackbed began"], [], "it began and did not end in time; it was not read; look at the host, or"),
    "dies": (
        137,
        ["trackbed began"],
        [],
        "it died half-way (exit status 137); it was not read, and reading changes nothing; look at the host, then run",
    ),
    "unreachable": (255, [], ["Connection refused"], "ssh: Connection refused; it was not read; try: ssh n1 true"),
    "no Python": (NO_PYTHON, [], [], "it has no Python, it was not read; put Python"),
    "cut short": (CUT_SHORT, [], [], "the program arrived incomplete, it was not read; look at the connection"),
    "no sudo": (1, [], ["sudo: a password is required"], "sudo: a password is required; it was not read; let this"),
    "no shell": (
        1,
        [],
        ["/bin/sh: oops"],
        "it did not begin (exit status 1: /bin/sh: oops); it was not read; try: ssh",
    ),
    "full": (
        0,
        ["trackbed began", 'trackbed {"outcome": "disk-full", "message": "No space left"}'],
        [],
        "No space left; free some space there, then run this again",
    ),
    "garbled": (0, ["trackbed began", "trackbed {torn"], [], "its answer cannot be read; run this again"),
}


@pytest.mark.parametrize(("status", "output", "errors", "message"), UNREAD.values(), ids=UNREAD)
@pytest.mark.parametrize("verb", ["capture", "diff"])
def test_a_host_that_was_to_be_read_is_told_nothing_of_changes(
    verb: Verb, status: int | None, output: list[str], errors: list[str], message: str
) -> None:
    outcome = judge_output("n1", verb, status, output, errors)
    assert outcome.message.startswith(message)
    assert not re.search("resume|nothing was changed|undo|puts everything back", outcome.message)


def test_a_host_that_sends_too_much_is_described_by_its_task() -> None:
    assert explain_oversized_output("capture").endswith("it was not read; look at the host, then run this again")
    assert explain_oversized_output("apply").endswith("then run this again with --resume")


def _task(name: str, persist: str = "auto") -> HostTask:
    return HostTask("apply", name, {}, {}, persist, 60)


def test_a_log_with_a_torn_line_remembers_who_is_done_with_the_same_request(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with open_log(path, resume=False) as log:
        log.append_outcome(_task("n1"), Outcome("n1", "applied", ""))
        log.append_outcome(_task("n2"), Outcome("n2", "died", ""))
    with path.open("a") as stream:
        stream.write('{"node": "n3", "ki')
    with open_log(path, resume=True) as log:
        known = [
            log.is_done(_task("n1")),
            log.is_done(_task("n2")),
            log.is_done(_task("n3")),
            log.is_done(_task("n1", "none")),
        ]
        log.append_outcome(_task("n3"), Outcome("n3", "applied", ""))
    assert known == [True, False, False, False]
    with open_log(path, resume=True) as log:
        assert log.is_done(_task("n3"))


def test_one_run_at_a_time_writes_a_log(tmp_path: Path) -> None:
    with open_log(tmp_path / "log", resume=False), pytest.raises(LogBusyError, match="another run writes"):
        open_log(tmp_path / "log", resume=True).__enter__()


def test_what_is_sent_imports_the_standard_library_and_what_is_sent() -> None:
    sent = archive.map_modules().keys()
    others = {(name, module) for name in sent for module in archive.collect_imports(name) - sent}
    assert [pair for pair in others if pair[1].partition(".")[0] not in sys.stdlib_module_names] == []


def test_what_is_sent_has_the_grammar_of_the_oldest_python() -> None:
    for path in archive.map_modules().values():
        assert ast.parse(path.read_bytes(), str(path), feature_version=archive.OLDEST).body is not None


def test_what_is_sent_calls_nothing_in_a_way_that_the_oldest_python_lacks() -> None:
    trees = {name: ast.parse(path.read_bytes()) for name, path in archive.map_modules().items()}
    calls = [(name, node) for name, tree in trees.items() for node in ast.walk(tree) if isinstance(node, ast.Call)]
    assert [(name, ast.unparse(call)) for name, call in calls if _is_too_new(call)] == []


def _is_too_new(call: ast.Call) -> bool:
    function, keywords = ast.unparse(call.func), {keyword.arg for keyword in call.keywords}
    if function in {"isinstance", "issubclass"}:
        return isinstance(call.args[1], ast.BinOp)  # X | Y of types is Python 3.10
    return bool(keywords & {"zip": {"strict"}, "dataclass": {"slots", "kw_only"}}.get(function, set()))


def test_ruff_reads_what_is_sent_as_the_oldest_python() -> None:
    root = Path(__file__).parents[2]
    versions = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["ruff"]["per-file-target-version"]
    patterns = [pattern for braces, version in versions.items() if version == "py39" for pattern in _expand(braces)]
    paths = [str(path.relative_to(root)) for path in archive.map_modules().values()]
    assert [path for path in paths if not any(fnmatch(path, pattern) for pattern in patterns)] == []


def _expand(pattern: str) -> list[str]:
    """Return the patterns of one with at most one pair of braces."""
    head, _, tail = pattern.partition("{")
    names, _, tail = tail.partition("}")
    return [f"{head}{name}{tail}" for name in names.split(",")]


@pytest.mark.parametrize(
    ("kind", "message", "reason"),
    [
        (
            "unreachable",
            "ssh: connect to host 10.0.0.7 port 22: No route to host; nothing was changed there; try: ssh gpu007 true",
            "ssh does not reach it (No route to host)",
        ),
        (
            "unreachable",
            "ssh: Permission denied (publickey).; nothing was changed there; try: ssh gpu007 true",
            "ssh does not reach it (Permission denied (publickey).)",
        ),
        (
            "unreachable",
            "root@10.0.0.7: Permission denied (publickey).; nothing was changed there; try: ssh gpu007 true",
            "ssh does not reach it (Permission denied (publickey).)",
        ),
        (
            "unreachable",
            "ssh: Could not resolve hostname gpu007: Name or service not known; nothing was changed there",
            "ssh does not reach it (Could not resolve hostname: Name or service not known)",
        ),
        (
            "unreachable",
            "Connection closed by 10.0.0.7 port 22; nothing was changed there",
            "ssh does not reach it (Connection closed by it)",
        ),
        (
            "unreachable",
            "Connection reset by authenticating user root 10.0.0.7 port 22; nothing was changed there",
            "ssh does not reach it (Connection reset by it)",
        ),
        (
            "timeout",
            "it did not answer in time; nothing was changed there; try: ssh gpu007 true",
            "it did not answer in time",
        ),
        (
            "oversized",
            "it sent more than 8 MiB, so it was given up; what it changed by then is not known here",
            "it sent more than 8 MiB, so it was given up",
        ),
        ("same", "as planned", "its answer has nothing of what was asked for"),
    ],
    ids=["no route", "no key", "no key of root", "no name", "closed", "reset", "late", "oversized", "empty"],
)
def test_why_a_host_was_not_read_is_one_sentence_without_its_name(kind: str, message: str, reason: str) -> None:
    assert explain_unread(Outcome("gpu007", kind, message)) == reason
