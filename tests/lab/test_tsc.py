"""The rate of the time stamp counter."""

from __future__ import annotations

import mmap
import platform
import time

import pytest
from trackbed_lab.vm import tsc


@pytest.mark.skipif(platform.machine() != "x86_64", reason="there is no such counter")
def test_two_measurements_agree_to_a_thousandth() -> None:
    first, second = (tsc.measure_khz.__wrapped__() for _ in range(2))
    assert first is not None
    assert second is not None
    assert first > 100_000
    assert abs(first - second) < first / 1000


def test_a_counter_of_known_rate_is_measured_right(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 10**12, 1000))  # a microsecond for each look
    monkeypatch.setattr(time, "monotonic_ns", lambda: next(now))
    monkeypatch.setattr(time, "sleep", lambda _: None)
    counted = iter(range(0, 10**12, 5000))  # 5,000 for every 2 us: 2.5 GHz
    assert tsc.measure_rate(lambda: next(counted)) == 2_500_000


@pytest.mark.parametrize("lack", ["architecture", "executable memory"])
def test_where_it_cannot_be_had_there_is_none(monkeypatch: pytest.MonkeyPatch, lack: str) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError

    if lack == "architecture":
        monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    else:
        monkeypatch.setattr(mmap, "mmap", refused)
    assert tsc.measure_khz.__wrapped__() is None
