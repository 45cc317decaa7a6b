"""One leads at a time; who does not renew stops by itself before another one may begin."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from trackbed.cluster.api import client as kube
from trackbed.cluster.api.client import REQUEST_SECONDS, Client
from trackbed.cluster.api.errors import ApiRefusedError, KubeError, UnreachableError
from trackbed.cluster.api.lease import DEADLINE_SECONDS, LEASE_SECONDS, Election

PATH = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


class Clock:
    """The time that an election goes by."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr("trackbed.cluster.api.lease.monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def quiet(_: str) -> None:
    """Nobody listens."""


def test_no_write_of_a_former_leader_can_come_late() -> None:
    assert DEADLINE_SECONDS + REQUEST_SECONDS <= LEASE_SECONDS


def test_one_leads_and_the_next_takes_over_when_nobody_renews(api_server: Path, clock: Clock) -> None:
    async def run() -> None:
        async with kube.connect(str(api_server)) as live:
            first, second = (Election(live, "default", "take-over", who) for who in ("first", "second"))
            assert await first._try_to_lead(quiet)  # noqa: SLF001 - one try at a time, so that no test waits
            assert not await second._try_to_lead(quiet)  # noqa: SLF001 - as above
            assert (first.leads, second.leads) == (True, False)
            clock.now += DEADLINE_SECONDS
            assert not first.leads, "it stops by itself"
            assert not await second._try_to_lead(quiet)  # noqa: SLF001 - as above
            clock.now += LEASE_SECONDS - DEADLINE_SECONDS
            assert await second._try_to_lead(quiet)  # noqa: SLF001 - as above
            assert not await first._try_to_lead(quiet)  # noqa: SLF001 - as above
            lease = await live.get(f"{PATH}/take-over", dict[str, Any])
            assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseTransitions"]) == ("second", 1)

    asyncio.run(run())


def test_a_lease_that_is_renewed_is_never_taken(api_server: Path, clock: Clock) -> None:
    async def run() -> None:
        async with kube.connect(str(api_server)) as live:
            first, second = (Election(live, "default", "renewed", who) for who in ("first", "second"))
            for _ in range(5):
                assert await first._try_to_lead(quiet)  # noqa: SLF001 - as above
                assert not await second._try_to_lead(quiet)  # noqa: SLF001 - as above
                clock.now += DEADLINE_SECONDS - 1
                assert first.leads

    asyncio.run(run())


def test_a_lease_that_is_given_up_is_free_at_once(api_server: Path) -> None:
    async def run() -> None:
        async with kube.connect(str(api_server)) as live:
            first, second = (Election(live, "default", "given-up", who) for who in ("first", "second"))
            await first.wait_until_leading(quiet)
            await first.release()
            assert not first.leads
            await second.wait_until_leading(quiet)
            assert second.leads

    asyncio.run(run())


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (UnreachableError("nobody there"), "nobody there"),
        (
            ApiRefusedError(429, "TooManyRequests", "busy", "x"),
            "cannot acquire the Lease: x: busy (429 TooManyRequests)",
        ),
    ],
    ids=["away", "busy"],
)
def test_an_api_server_that_is_away_or_busy_for_a_moment_costs_nobody_the_lead(
    api_server: Path, clock: Clock, error: KubeError, says: str
) -> None:
    async def run() -> None:
        async with kube.connect(str(api_server)) as live:
            only = Election(live, "default", f"moment-{len(says)}", "only")
            await only.wait_until_leading(quiet)
            only._client = _Away(error)  # noqa: SLF001 - the server goes away
            holders: list[str] = []
            assert not await only._try_to_lead(holders.append)  # noqa: SLF001 - as above
            assert (only.leads, holders) == (True, [says])
            clock.now += DEADLINE_SECONDS
            assert not only.leads

    asyncio.run(run())


class _Away(Client):
    def __init__(self, error: KubeError) -> None:
        """No connection at all, or a server that is busy."""
        self._error = error

    async def get(self, path: str, model: type[Any], **params: str) -> Any:
        """Nobody answers, or not now."""
        del path, model, params
        raise self._error
