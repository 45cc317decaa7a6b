"""The removal of a run's objects, and of those of runs that were killed.

ConfigMaps are deleted last: a run whose removal was cut short is known by them, also where it has no pods any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from trackbed.cluster.api.paths import join_path
from trackbed.cluster.proof.objects import PROOF

if TYPE_CHECKING:
    from trackbed.cluster.api.dynamic import DynamicClient
    from trackbed.cluster.api.response import Object

_RIGHTS: Final = "/apis/rbac.authorization.k8s.io/v1"
_REMOVED: Final = (
    ("/api/v1", "pods"),
    (_RIGHTS, "rolebindings"),
    (_RIGHTS, "roles"),
    ("/api/v1", "serviceaccounts"),
    ("/api/v1", "configmaps"),
)
LEAST_AGE: Final = timedelta(hours=1)
"""How long a run without pods must not have changed: one that has just begun has none yet."""


async def remove_run(client: DynamicClient, namespace: str, name: str) -> None:
    """Delete all objects of a run, so that its pods give back their rails. Raises KubeError."""
    for group, plural in _REMOVED:
        await client.client.delete_all(join_path(f"{group}/namespaces", namespace, plural), f"{PROOF}={name}")


async def remove_runs(client: DynamicClient, namespace: str, names: Sequence[str]) -> None:
    """Delete all objects of runs that were killed. Raises KubeError."""
    for name in names:
        await remove_run(client, namespace, name)


def build_command(namespace: str, name: str) -> str:
    """Return the command that deletes the objects of a run."""
    kinds = ",".join(plural for _, plural in _REMOVED)
    return f"kubectl delete -n {namespace} {kinds} -l {PROOF}={name}"


async def list_left_behind(client: DynamicClient, namespace: str, now: datetime) -> list[str]:
    """Return the names of runs whose pods have all ended, or that have had none for a while. Raises KubeError."""
    running: dict[str, bool] = {}
    async for pod in client.iter_objects("v1", "Pod", namespace, selector=PROOF):
        name = pod["metadata"]["labels"][PROOF]
        is_running = pod.get("status", {}).get("phase") not in {"Succeeded", "Failed"}
        running[name] = running.get(name, False) or is_running
    changed: dict[str, str] = {}
    async for mailbox in client.iter_objects("v1", "ConfigMap", namespace, selector=PROOF):
        name = mailbox["metadata"]["labels"][PROOF]
        changed[name] = max(changed.get(name, ""), _read_last_change(mailbox))
    limit = f"{now - LEAST_AGE:%Y-%m-%dT%H:%M:%SZ}"
    abandoned = [name for name, last in changed.items() if name not in running and last < limit]
    return [*(name for name, is_running in running.items() if not is_running), *abandoned]


def _read_last_change(body: Object) -> str:
    """Return when an object was created or written last, as an API server writes times."""
    metadata = body["metadata"]
    writes = [str(entry.get("time") or "") for entry in metadata.get("managedFields") or ()]
    return max([str(metadata.get("creationTimestamp") or ""), *writes])
