"""Calls that run concurrently, and how they end."""

import asyncio

import pytest

from trackbed.cluster.api.concurrency import MAX_REQUESTS, run_all
from trackbed.cluster.api.errors import KubeError


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
