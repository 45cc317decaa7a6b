"""Causes that a message alone does not tell: they follow from the state of the cluster."""

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.errors import ApiRefusedError, UnknownKindError
from trackbed.cluster.api.response import Object
from trackbed.cluster.causes.catalogue import NamedCause, fill_cause, load_causes
from trackbed.cluster.causes.reports import Report

_POOL_API = "nv-ipam.nvidia.com/v1alpha1"
_POOL_KINDS = ("IPPool", "CIDRPool")


async def refine(client: DynamicClient, reports: list[Report]) -> list[Report]:
    """Return the reports with causes that the cluster's state makes more precise. Raises KubeError.

    What the scheduler misses is in use, not announced, or not there at all; a pool is missing, or of the other kind.
    """
    ids = {report.diagnosis.id for report in reports}
    offers = await _count_offers(client) if "no-node-offers-resource" in ids else Counter[str]()
    pools = await _list_pools(client) if "nv-ipam-pool-not-on-node" in ids else set[tuple[str, str]]()
    has_slices = "claim-unsatisfied" not in ids or await _has_slices(client)
    refined = (_choose_cause(report, offers, has_slices=has_slices) for report in reports)
    return [
        report._replace(diagnosis=_check_pool(cause, pools)) for report, cause in zip(reports, refined, strict=True)
    ]


async def find_missing_claims(client: DynamicClient, pods: Iterable[Object]) -> list[Report]:
    """Return a report for each pod that names a ResourceClaim that does not exist. Raises KubeError.

    The scheduler does not take such a pod into its queue, so that neither an event nor a condition says anything.
    """
    named = [
        (pod, str(claim["resourceClaimName"]))
        for pod in pods
        for claim in pod["spec"].get("resourceClaims") or ()
        if claim.get("resourceClaimName")
    ]
    if not named:
        return []
    try:
        claims = client.iter_objects("resource.k8s.io/v1", "ResourceClaim")
        existing = {(claim["metadata"]["namespace"], claim["metadata"]["name"]) async for claim in claims}
    except (UnknownKindError, ApiRefusedError):
        return []
    cause, silence = load_causes()["claim-missing"], "nothing; the scheduler waits until the claim exists"
    return [
        Report(f"{namespace}/{pod['metadata']['name']}", "", silence, fill_cause(cause, {"name": name}))
        for pod, name in named
        if ((namespace := pod["metadata"]["namespace"]), name) not in existing
    ]


def _choose_cause(report: Report, offers: Counter[str], *, has_slices: bool) -> NamedCause:
    causes, diagnosis = load_causes(), report.diagnosis
    if diagnosis.id == "claim-unsatisfied" and not has_slices:
        return fill_cause(causes["no-device-slices"], {})
    if diagnosis.id == "no-node-offers-resource":
        missing = [name for name in _list_missing_resources(report.message) if not offers[name]]
        lacking = missing or _list_missing_resources(report.message)
        cause = causes["no-node-offers-resource" if missing else "resource-in-use"]
        return fill_cause(cause, {"resource": ", ".join(lacking)})
    return diagnosis


def _list_missing_resources(message: str) -> list[str]:
    """Return the resources of which the scheduler says that there are too few, each once."""
    words = message.replace(",", " ").split()
    return sorted({word.rstrip(".") for before, word in pairwise(words) if before == "Insufficient" and "/" in word})


async def _count_offers(client: DynamicClient) -> Counter[str]:
    """Return the resources that nodes offer, with the number of nodes. Raises KubeError."""
    offers = Counter[str]()
    async for node in client.iter_objects("v1", "Node"):
        offers.update(
            name for name, count in (node.get("status", {}).get("allocatable") or {}).items() if str(count) != "0"
        )
    return offers


async def _has_slices(client: DynamicClient) -> bool:
    """Return whether a DRA driver has announced devices; true if that cannot be read. Raises KubeError."""
    try:
        async for _ in client.iter_objects("resource.k8s.io/v1", "ResourceSlice"):
            return True
    except (UnknownKindError, ApiRefusedError):
        return True
    return False


def _check_pool(cause: NamedCause, pools: set[tuple[str, str]]) -> NamedCause:
    """Return whether the pool of a network is missing or of the other kind; any other cause unchanged."""
    name, kind = cause.names.get("pool", ""), cause.names.get("kind", "")
    if cause.id != "nv-ipam-pool-not-on-node" or not pools or (name, kind) in pools:
        return cause
    others = [other.lower() for other in _POOL_KINDS if (name, other.lower()) in pools]
    missing = load_causes()["nv-ipam-pool-of-other-kind" if others else "nv-ipam-pool-missing"]
    return fill_cause(missing, {"pool": name, "kind": kind, "other": "".join(others)})


async def _list_pools(client: DynamicClient) -> set[tuple[str, str]]:
    """Return name and kind, in small letters, of NV-IPAM's pools; empty if they cannot be read. Raises KubeError."""
    try:
        return {
            (pool["metadata"]["name"], kind.lower())
            for kind in _POOL_KINDS
            async for pool in client.iter_objects(_POOL_API, kind)
        }
    except (UnknownKindError, ApiRefusedError):
        return set()
