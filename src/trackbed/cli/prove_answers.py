"""`trackbed prove --answers FILE`: answers are kept in a file while a proof runs, and the same command goes on from it.

Each line is a JSON object. The first says what is proved, and each run adds such a line; the others are answers:

    {"proof": "digest of plan, mode and rungs", "run": "proof-1a2b3c", "at": "2026-..Z"}
    {"sheet": "ping", "number": 7, "path": "gpu001 0 rail0 gpu002 0 rail0 - 400", "side": 0, "try": 2, "output": {...}}

A line that was torn by a crash is ignored. Only one run at a time writes the file (flock(2)). It is removed when the
proof has ended.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeGuard

import click
import msgspec

from trackbed.cli.options import refuse
from trackbed.cli.terminal import print_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trackbed.fabric.plan.plan import Plan
    from trackbed.prove.kept import Kept, KeptTest
    from trackbed.prove.sheets import Sheet

answers_option = click.option(
    "--answers",
    "answers_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Keep answers in FILE until the end; if the run is killed, the same command goes on from there.",
)
"""--answers FILE."""


@dataclass
class AnswerFile:
    """Answers of earlier runs, and the file that gets those of this one; None without --answers."""

    run_name: str = field(default_factory=lambda: f"proof-{secrets.token_hex(3)}")
    """Name of this run, and of its pods."""
    stream: BinaryIO | None = None
    kept: Kept = field(default_factory=dict)
    former_runs: Sequence[str] = ()
    begun: str = ""
    """When the first run began; empty if there is none."""
    _keys: dict[int, KeptTest] = field(default_factory=dict)

    def begin_sheet(self, sheet: Sheet) -> None:
        """Take the answers that come now as those of a sheet."""
        from trackbed.prove.kept import list_keys

        self._keys = list_keys(sheet) if self.stream else {}

    def keep(self, attempt: int, step_id: int, output: Any) -> None:  # noqa: ANN401 - a node may answer anything
        """Append an answer, unless it is of no test, or nested so deeply that it cannot be written."""
        number, side = divmod(step_id, 2)
        if key := self._keys.get(number):
            with suppress(RecursionError):
                self._append({**key._asdict(), "side": side, "try": attempt, "output": output})

    def append_header(self, digest: str) -> None:
        """Append the line of this run."""
        self._append({"proof": digest, "run": self.run_name, "at": datetime.now(UTC).isoformat(timespec="seconds")})

    def _append(self, document: object) -> None:
        if self.stream is None:
            return
        try:
            os.write(self.stream.fileno(), msgspec.json.encode(document) + b"\n")
        except OSError as error:
            print_line(f"--answers: no more answers are kept: {error.strerror}; the proof goes on", err=True)
            self.stream = None


@contextmanager
def open_answers(
    path: Path | None, plan: Plan, mode: str, rungs: Sequence[str], conditions: Sequence[str]
) -> Iterator[AnswerFile]:
    """Open and lock the file, and remove it when the block ends well. Exit with status 2 if it is of something else.

    `conditions`: what else makes answers comparable, such as where workers run.
    """
    if path is None:
        yield AnswerFile()
        return
    digest = _compute_digest(plan, mode, rungs, conditions)
    try:
        stream = path.open("ab+")
    except OSError as error:
        refuse(f"--answers: cannot keep answers in {path}: {error.strerror}; name another file")
    with stream:
        answers = _read_locked(path, stream, digest)
        answers.append_header(digest)
        yield answers
        path.unlink(missing_ok=True)


def read_former_runs(path: Path | None) -> list[str]:
    """Return the names of the runs that a file has answers of; `open_answers` refuses one that cannot be read."""
    if path is None:
        return []
    documents = []
    with suppress(OSError), path.open("rb") as stream:
        for line in stream:
            with suppress(msgspec.DecodeError, RecursionError):
                documents.append(msgspec.json.decode(line) if b'"run"' in line else None)
    return [document["run"] for document in documents if _is_header(document)]


def _compute_digest(plan: Plan, mode: str, rungs: Sequence[str], conditions: Sequence[str]) -> str:
    from trackbed.fabric.plan.plan_file import encode_plan

    digest = hashlib.sha256(encode_plan(plan, plan.nodes))
    digest.update(msgspec.json.encode([mode, rungs, conditions]))
    return digest.hexdigest()[:16]


def _read_locked(path: Path, stream: BinaryIO, digest: str) -> AnswerFile:
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        refuse(f"--answers: another proof writes {path}; wait for it, or name another file")
    stream.seek(0)
    headers: list[dict[str, str]] = []
    kept = _collect_answers(_iter_documents(path, stream, digest, headers))
    if headers and not _ends_line(stream):
        os.write(stream.fileno(), b"\n")
    names = [header["run"] for header in headers]
    begun = headers[0]["at"] if headers else ""
    return AnswerFile(stream=stream, kept=kept, former_runs=names, begun=begun)


def _iter_documents(
    path: Path, stream: BinaryIO, digest: str, headers: list[dict[str, str]]
) -> Iterator[tuple[int, Any]]:
    """Yield the answers with the number of their run; put the lines of runs into `headers`."""
    for line in stream:
        try:
            document = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError):
            document = None
        if _is_header(document):
            headers.append(document)
        if not headers:
            refuse(f"--answers: {path} is not a file of answers, and stays as it is; name another file")
        if headers[-1]["proof"] != digest:
            refuse(
                f"--answers: {path} is of another proof ({headers[0]['at']}), with another Fabric, nodes, mode,"
                " rungs or share, or elsewhere (in pods, on hosts); repeat that command, or remove the file"
            )
        if isinstance(document, dict) and not _is_header(document):
            yield len(headers), document


def _is_header(document: object) -> TypeGuard[dict[str, str]]:
    if not isinstance(document, dict):
        return False
    return all(isinstance(document.get(key), str) for key in ("proof", "run", "at"))


def _collect_answers(documents: Iterable[tuple[int, Any]]) -> Kept:
    """Return the tests of which both ends have an answer of one try, the last."""
    from trackbed.prove.kept import KeptTest

    tries: dict[KeptTest, tuple[object, dict[int, object]]] = {}
    for run, document in documents:
        try:
            key = KeptTest(document["sheet"], document["number"], document["path"])
            attempt = (run, document["try"])
            if key not in tries or tries[key][0] != attempt:
                tries[key] = (attempt, {})
            tries[key][1][document["side"]] = document["output"]
        except (KeyError, TypeError):
            continue
    return {key: (ends[0], ends[1]) for key, (_, ends) in tries.items() if {0, 1} <= ends.keys()}


def _ends_line(stream: BinaryIO) -> bool:
    stream.seek(-1, 2)
    return stream.read(1) == b"\n"
