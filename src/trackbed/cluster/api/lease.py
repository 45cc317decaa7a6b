"""Who leads: one of several that run the same program, by a Lease (coordination.k8s.io/v1).

    renewed by the holder every RENEW_SECONDS
    given up by the holder after DEADLINE_SECONDS without a renewal: it stops to act by itself
    taken by another after LEASE_SECONDS in which nobody renewed it, by that other's own clock

Clocks of two machines are never compared: a follower counts from when it saw the Lease change last. A request that a
leader sent before its deadline is over (client.REQUEST_SECONDS) before another one can lead:
DEADLINE_SECONDS + REQUEST_SECONDS <= LEASE_SECONDS.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from http import HTTPStatus
from time import monotonic

import msgspec

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import ApiRefusedError, KubeError
from trackbed.cluster.api.metadata import ObjectMetadata

LEASE_SECONDS = 15
DEADLINE_SECONDS = 7.0
RENEW_SECONDS = 3.0


class _LeaseSpec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_transitions: int | None = None


class _Lease(msgspec.Struct):
    metadata: ObjectMetadata
    spec: _LeaseSpec


class Election:
    """One candidate's view of a Lease."""

    def __init__(self, client: Client, namespace: str, name: str, who: str) -> None:
        self.who = who
        self._client, self._name, self._namespace = client, name, namespace
        self._all = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._last_change = ("", monotonic())
        self._renewed = 0.0
        self._contact: float | None = None

    @property
    def in_touch(self) -> bool:
        """Whether the server has told of the Lease lately: candidate and holder ask every RENEW_SECONDS."""
        return self._contact is not None and monotonic() - self._contact < LEASE_SECONDS

    @property
    def leads(self) -> bool:
        """Whether it may still act: the last renewal is not too long ago."""
        return bool(self._renewed) and monotonic() - self._renewed < DEADLINE_SECONDS

    async def win(self, report: Callable[[str], None]) -> None:
        """Wait until this candidate leads."""
        while not await self._try(report):  # noqa: ASYNC110 - the server is asked; nothing here could set an event
            await asyncio.sleep(RENEW_SECONDS)

    async def hold(self, report: Callable[[str], None]) -> None:
        """Renew until it fails for DEADLINE_SECONDS, or somebody else holds it; then return."""
        while self.leads:
            await asyncio.sleep(RENEW_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._renewed + DEADLINE_SECONDS - monotonic()):
                    await self._try(report)

    async def release(self) -> None:
        """Give it up, so that another need not wait. Nothing happens where it is not held."""
        if not self.leads:
            return
        lease = await self._client.get(f"{self._all}/{self._name}", _Lease)
        if lease.spec.holder_identity == self.who:
            spec = {"holderIdentity": "", "leaseDurationSeconds": 1}
            await self._client.merge(f"{self._all}/{self._name}", _versioned(lease, spec))
        self._renewed = 0.0

    async def _try(self, report: Callable[[str], None]) -> bool:
        """Take or renew it if that is possible now."""
        begun = monotonic()
        try:
            done = await self._take()
        except ApiRefusedError as error:
            if error.status != HTTPStatus.CONFLICT:
                report(f"leases cannot be had: {error}")
                return False
            done = False  # somebody was faster
        except KubeError as error:
            report(str(error))
            return False
        self._contact = begun
        self._renewed = begun if done else 0.0
        return done

    async def _take(self) -> bool:
        try:
            lease = await self._client.get(f"{self._all}/{self._name}", _Lease)
        except ApiRefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            await self._client.create(self._all, self._first())
            return True
        version = lease.metadata.resource_version
        if version != self._last_change[0]:
            self._last_change = (version, monotonic())
        holder = lease.spec.holder_identity or ""
        if holder not in {"", self.who} and monotonic() - self._last_change[1] < LEASE_SECONDS:
            return False
        moves = (lease.spec.lease_transitions or 0) + (holder != self.who)
        await self._client.merge(f"{self._all}/{self._name}", _versioned(lease, self._held(moves, holder)))
        return True

    def _first(self) -> dict[str, object]:
        metadata = {"name": self._name, "namespace": self._namespace}
        kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        return {**kind, "metadata": metadata, "spec": self._held(0, "")}

    def _held(self, moves: int, before: str) -> dict[str, object]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        acquired = {} if before == self.who else {"acquireTime": now}
        return {
            "holderIdentity": self.who,
            "leaseDurationSeconds": LEASE_SECONDS,
            "leaseTransitions": moves,
            "renewTime": now,
            **acquired,
        }


def _versioned(lease: _Lease, spec: dict[str, object]) -> dict[str, object]:
    return {"metadata": {"resourceVersion": lease.metadata.resource_version}, "spec": spec}
