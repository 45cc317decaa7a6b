"""Calls that run concurrently, and how they end."""

import asyncio
from functools import partial

import pytest

from trackbed.cluster.api.concurrency import MAX_REQUESTS, run_all, run_each
from trackbed.cluster.api.errors import ApiRefusedError, KubeError, UnreachableError


def test_results_come_in_the_order_of_the_calls() -> None:
    async def succeed() -> bool:
        await asyncio.sleep(0.01)
        return True

    async def decline() -> bool:
        return False

    assert asyncio.run(run_all([succeed, decline, succeed])) == [True, False, True]


def test_no_call_goes_on_after_one_has_failed() -> None:
    begun: list[int] = []
    ended: list[int] = []

    async def wait() -> bool:
        begun.append(1)
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            ended.append(1)
        return True

    async def fail() -> bool:
        await asyncio.sleep(0)
        raise KubeError("no answer")

    async def run() -> None:
        with pytest.raises(KubeError, match="no answer"):
            await run_all([wait, fail, *[wait] * (2 * MAX_REQUESTS)])
        assert ended == begun
        assert len(begun) <= MAX_REQUESTS

    asyncio.run(run())


def test_a_request_that_the_server_refuses_stops_no_other() -> None:
    ended: list[int] = []

    async def end(number: int) -> None:
        if number % 3 == 0:
            raise ApiRefusedError(409, "Conflict", f"number {number}", "nodes")
        await asyncio.sleep(0)
        ended.append(number)

    with pytest.raises(ApiRefusedError, match="number 0"):
        asyncio.run(run_each([partial(end, number) for number in range(3 * MAX_REQUESTS)]))
    assert len(ended) == 2 * MAX_REQUESTS


def test_a_server_that_does_not_answer_is_asked_no_more() -> None:
    ended: list[int] = []

    async def end(number: int) -> None:
        if not number:
            raise UnreachableError("no answer")
        await asyncio.sleep(0)
        ended.append(number)

    with pytest.raises(UnreachableError):
        asyncio.run(run_each([partial(end, number) for number in range(3 * MAX_REQUESTS)]))
    assert len(ended) < 3 * MAX_REQUESTS - 1
