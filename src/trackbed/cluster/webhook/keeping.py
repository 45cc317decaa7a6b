"""The authority and certificate in a Secret that all replicas share, and its bundle in the webhook configurations.

Whoever comes first writes; who comes second is refused by the API server (the Secret was made, or its resourceVersion
is another by now) and takes what the first one wrote. So all replicas show certificates of one authority.
"""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.errors import ApiRefusedError, KubeError
from trackbed.cluster.api.response import Object
from trackbed.cluster.stacks.objects import manifest
from trackbed.cluster.webhook.certificates import Held, renewed
from trackbed.cluster.webhook.configuration import Where, configurations

SECRET = "trackbed-webhook-certificates"  # noqa: S105 - the Secret's name
MANAGER = "trackbed-webhook"
TRIES = 5
"""Times another replica may have been quicker, until we give up for now."""
_FIELDS = {
    "authority": "ca.crt",
    "authority_key": "ca.key",
    "old_authority": "old-ca.crt",
    "certificate": "tls.crt",
    "key": "tls.key",
}


async def keep(client: DynamicClient, namespace: str, names: tuple[str, ...]) -> Held:
    """What all replicas hold, made or renewed where that is due. Raises KubeError."""
    for _ in range(TRIES):
        found = await client.find("v1", "Secret", SECRET, namespace)
        held = _read(found) if found else None
        wanted = renewed(held, names, datetime.now(UTC))
        if wanted is held:
            return held
        try:
            await _write(client, namespace, wanted, found)
        except ApiRefusedError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
        else:
            return wanted
    raise KubeError(f"Secret {SECRET} in {namespace}: others changed it {TRIES} times while we did")


async def publish(client: DynamicClient, where: Where, bundle: bytes | None) -> None:
    """Have the API server call us; what others wrote into the configurations stays. Raises KubeError."""
    for one in configurations(where, bundle):
        await client.apply(one, manager=MANAGER, force=True)


def _read(secret: Object) -> Held | None:
    """What a Secret holds; None where it is not what we write."""
    data: dict[str, Any] = secret.get("data") or {}
    try:
        found = {name: base64.b64decode(data.get(key, ""), validate=True) for name, key in _FIELDS.items()}
    except (binascii.Error, TypeError, ValueError):
        return None
    return Held(**found)


async def _write(client: DynamicClient, namespace: str, held: Held, before: Object | None) -> None:
    data = {key: base64.b64encode(getattr(held, name)).decode() for name, key in _FIELDS.items()}
    one = manifest("v1", "Secret", SECRET, namespace, type="Opaque", data=data)
    if before is None:
        await client.create(one)
        return
    one["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"]
    await client.apply(one, manager=MANAGER, force=True)
