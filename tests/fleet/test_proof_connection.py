"""The connection to a worker of a proof: a hostile one says what it likes, as often as it likes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from trackbed.fleet.proof_ssh import _Connection


def test_a_worker_begins_once_however_often_it_says_so() -> None:
    begun: list[str] = []
    workers = cast("Any", SimpleNamespace(run=SimpleNamespace(handle_begin=begun.append)))
    connection = _Connection("gpu1", workers, 60)
    stream = SimpleNamespace(SNAME_STDERR="stderr")
    for _ in range(1000):
        connection.ev_read(stream, "gpu1", "stdout", b"trackbed began")
    assert begun == ["gpu1"]
