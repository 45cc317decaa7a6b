"""Leader election among replicas of a program, by a Lease (coordination.k8s.io/v1).

    renewed by the leader every RENEW_SECONDS
    given up by the leader after DEADLINE_SECONDS without a renewal; it then stops by itself
    acquired by another candidate after LEASE_SECONDS without a renewal, by that candidate's clock

Clocks of two machines are never compared: a follower counts from the time at which it saw the Lease change. A request
that a leader sends before its deadline ends (client.REQUEST_SECONDS) before another candidate can lead:
DEADLINE_SECONDS + REQUEST_SECONDS <= LEASE_SECONDS.
"""

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
    """A candidate for a Lease."""

    def __init__(self, client: Client, namespace: str, name: str, identity: str) -> None:
        self.identity = identity
        self._client, self._name, self._namespace = client, name, namespace
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._last_change = ("", monotonic())
        self._renewed = 0.0
        self._contact: float | None = None

    @property
    def in_touch(self) -> bool:
        """Whether the Lease was read within LEASE_SECONDS; candidate and leader read it every RENEW_SECONDS."""
        return self._contact is not None and monotonic() - self._contact < LEASE_SECONDS

    @property
    def leads(self) -> bool:
        """Whether this candidate leads: its last renewal is within DEADLINE_SECONDS."""
        return bool(self._renewed) and monotonic() - self._renewed < DEADLINE_SECONDS

    async def win(self, report: Callable[[str], None]) -> None:
        """Wait until this candidate leads."""
        while not await self._try(report):  # noqa: ASYNC110 - the Lease is polled; nothing could set an event
            await asyncio.sleep(RENEW_SECONDS)

    async def hold(self, report: Callable[[str], None]) -> None:
        """Renew the Lease; return once it fails for DEADLINE_SECONDS, or another candidate holds it."""
        while self.leads:
            await asyncio.sleep(RENEW_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._renewed + DEADLINE_SECONDS - monotonic()):
                    await self._try(report)

    async def release(self) -> None:
        """Release the Lease if this candidate holds it, so that the next leader need not wait."""
        if not self.leads:
            return
        lease = await self._client.get(f"{self._path}/{self._name}", _Lease)
        if lease.spec.holder_identity == self.identity:
            spec = {"holderIdentity": "", "leaseDurationSeconds": 1}
            await self._client.merge(f"{self._path}/{self._name}", _build_change(lease, spec))
        self._renewed = 0.0

    async def _try(self, report: Callable[[str], None]) -> bool:
        """Acquire or renew the Lease if possible; return whether this candidate leads."""
        start = monotonic()
        try:
            leads = await self._acquire()
        except ApiRefusedError as error:
            if error.status != HTTPStatus.CONFLICT:
                report(f"leases cannot be had: {error}")
                return False
            leads = False  # another candidate was faster
        except KubeError as error:
            report(str(error))
            return False
        self._contact = start
        self._renewed = start if leads else 0.0
        return leads

    async def _acquire(self) -> bool:
        try:
            lease = await self._client.get(f"{self._path}/{self._name}", _Lease)
        except ApiRefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            await self._client.create(self._path, self._build_lease())
            return True
        version = lease.metadata.resource_version
        if version != self._last_change[0]:
            self._last_change = (version, monotonic())
        holder = lease.spec.holder_identity or ""
        if holder not in {"", self.identity} and monotonic() - self._last_change[1] < LEASE_SECONDS:
            return False
        transitions = (lease.spec.lease_transitions or 0) + (holder != self.identity)
        await self._client.merge(
            f"{self._path}/{self._name}", _build_change(lease, self._build_spec(transitions, holder))
        )
        return True

    def _build_lease(self) -> dict[str, object]:
        metadata = {"name": self._name, "namespace": self._namespace}
        kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        return {**kind, "metadata": metadata, "spec": self._build_spec(0, "")}

    def _build_spec(self, transitions: int, previous: str) -> dict[str, object]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        acquired = {} if previous == self.identity else {"acquireTime": now}
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": LEASE_SECONDS,
            "leaseTransitions": transitions,
            "renewTime": now,
            **acquired,
        }


def _build_change(lease: _Lease, spec: dict[str, object]) -> dict[str, object]:
    return {"metadata": {"resourceVersion": lease.metadata.resource_version}, "spec": spec}
