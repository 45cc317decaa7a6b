"""Leader election among replicas of a program, by a Lease (coordination.k8s.io/v1).

    RENEW_SECONDS     interval at which the leader renews the Lease
    DEADLINE_SECONDS  time without a renewal after which the leader stops acting
    LEASE_SECONDS     time without a renewal after which another candidate acquires the Lease, by its own clock

Clocks of two machines are never compared: a candidate measures from the moment at which it saw the Lease change. A
request that a leader sends before its deadline ends before another candidate can lead, since DEADLINE_SECONDS +
client.REQUEST_SECONDS <= LEASE_SECONDS.
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
from trackbed.cluster.api.paths import join_path

LEASE_SECONDS = 15
DEADLINE_SECONDS = 7.0
RENEW_SECONDS = 3.0
_MAX_INT32 = (1 << 31) - 1
"""Largest number of transitions that the API server takes."""


class _LeaseSpec(msgspec.Struct, rename="camel"):
    """The fields of a Lease that candidates read."""

    holder_identity: str | None = None
    lease_transitions: int | None = None


class _Lease(msgspec.Struct):
    """A Lease (coordination.k8s.io/v1)."""

    metadata: ObjectMetadata
    spec: _LeaseSpec


class Election:
    """A candidate in the election of a leader by one Lease; `identity` names the candidate."""

    def __init__(self, client: Client, namespace: str, name: str, identity: str) -> None:
        self.identity = identity
        self._client, self._name, self._namespace = client, name, namespace
        self._path = join_path("/apis/coordination.k8s.io/v1/namespaces", namespace, "leases")
        self._last_change = ("", monotonic())
        self._last_renewal = 0.0
        self._last_contact: float | None = None

    @property
    def has_contact(self) -> bool:
        """Whether the Lease was read or renewed within the last LEASE_SECONDS."""
        return self._last_contact is not None and monotonic() - self._last_contact < LEASE_SECONDS

    @property
    def leads(self) -> bool:
        """Whether this candidate leads: its last renewal is within DEADLINE_SECONDS."""
        return bool(self._last_renewal) and monotonic() - self._last_renewal < DEADLINE_SECONDS

    async def wait_until_leading(self, report: Callable[[str], None]) -> None:
        """Wait until this candidate leads; `report` receives each failed attempt."""
        while not await self._try_to_lead(report):  # noqa: ASYNC110 - the Lease is polled; nothing could set an event
            await asyncio.sleep(RENEW_SECONDS)

    async def renew_until_lost(self, report: Callable[[str], None]) -> None:
        """Renew the Lease; return once renewals have failed for DEADLINE_SECONDS, or another candidate holds it."""
        while self.leads:
            await asyncio.sleep(RENEW_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._last_renewal + DEADLINE_SECONDS - monotonic()):
                    await self._try_to_lead(report)

    async def release(self) -> None:
        """Release the Lease if this candidate leads, so that the next leader need not wait. Raises KubeError."""
        if not self.leads:
            return
        lease = await self._client.get(join_path(self._path, self._name), _Lease)
        if lease.spec.holder_identity == self.identity:
            spec = {"holderIdentity": "", "leaseDurationSeconds": 1}
            await self._client.merge(join_path(self._path, self._name), _build_patch(lease, spec))
        self._last_renewal = 0.0

    async def _try_to_lead(self, report: Callable[[str], None]) -> bool:
        """Acquire or renew the Lease if possible; return whether this candidate leads."""
        start = monotonic()
        try:
            leads = await self._acquire_or_renew()
        except ApiRefusedError as error:
            if error.status != HTTPStatus.CONFLICT:
                report(f"cannot acquire the Lease: {error}")
                return False
            leads = False  # another candidate was faster
        except KubeError as error:
            report(str(error))
            return False
        self._last_contact = start
        self._last_renewal = start if leads else 0.0
        return leads

    async def _acquire_or_renew(self) -> bool:
        """Write the Lease; return False, without a write, while another candidate holds it. Raises KubeError."""
        lease = await self._client.find(join_path(self._path, self._name), _Lease)
        if lease is None:
            await self._client.create(self._path, self._build_lease())
            return True
        version = lease.metadata.resource_version
        if version != self._last_change[0]:
            self._last_change = (version, monotonic())
        holder = lease.spec.holder_identity or ""
        if holder not in {"", self.identity} and monotonic() - self._last_change[1] < LEASE_SECONDS:
            return False
        transitions = min((lease.spec.lease_transitions or 0) + (holder != self.identity), _MAX_INT32)
        await self._client.merge(
            join_path(self._path, self._name), _build_patch(lease, self._build_lease_spec(transitions, holder))
        )
        return True

    def _build_lease(self) -> dict[str, object]:
        metadata = {"name": self._name, "namespace": self._namespace}
        kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        return {**kind, "metadata": metadata, "spec": self._build_lease_spec(0, "")}

    def _build_lease_spec(self, transitions: int, previous_holder: str) -> dict[str, object]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        acquired = {} if previous_holder == self.identity else {"acquireTime": now}
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": LEASE_SECONDS,
            "leaseTransitions": transitions,
            "renewTime": now,
            **acquired,
        }


def _build_patch(lease: _Lease, spec: dict[str, object]) -> dict[str, object]:
    return {"metadata": {"resourceVersion": lease.metadata.resource_version}, "spec": spec}
