"""The Secret with authority and certificate for all replicas, and the CA bundle in the webhook configurations.

The first replica to write the Secret wins. The API server refuses the writes of the others (409, since the Secret
exists or its resourceVersion has changed), and they read the Secret. So all replicas use one authority.
"""

import base64
import binascii
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.errors import ApiRefusedError, KubeError
from trackbed.cluster.api.response import Object
from trackbed.cluster.stacks.objects import build_manifest
from trackbed.cluster.webhook.certificates import CertificateSet, renew_certificates
from trackbed.cluster.webhook.configuration import WebhookEndpoint, build_configurations

SECRET = "trackbed-webhook-certificates"  # noqa: S105 - the Secret's name
FIELD_MANAGER = "trackbed-webhook"
MAX_ATTEMPTS = 5
"""Attempts that may fail because other replicas write the Secret; the next renewal tries again."""
_SECRET_KEYS = {
    "authority": "ca.crt",
    "authority_key": "ca.key",
    "old_authority": "old-ca.crt",
    "certificate": "tls.crt",
    "key": "tls.key",
}
"""Field of CertificateSet -> key in the Secret."""


async def ensure_certificates(client: DynamicClient, namespace: str, names: tuple[str, ...]) -> CertificateSet:
    """Return the certificates that all replicas share; create or renew them if due. Raises KubeError."""
    for _ in range(MAX_ATTEMPTS):
        secret = await client.find("v1", "Secret", SECRET, namespace)
        stored = _decode_secret(secret) if secret else None
        renewed = renew_certificates(stored, names, datetime.now(UTC))
        if renewed is stored:
            return stored
        try:
            await _write_secret(client, namespace, renewed, secret)
        except ApiRefusedError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
        else:
            return renewed
    raise KubeError(f"Secret {SECRET} in {namespace}: others changed it {MAX_ATTEMPTS} times while we did")


async def publish_configurations(client: DynamicClient, endpoint: WebhookEndpoint, bundle: bytes | None) -> None:
    """Apply the webhook configurations with CA bundle `bundle`; fields of other managers are kept. Raises KubeError."""
    for configuration in build_configurations(endpoint, bundle):
        await client.apply(configuration, manager=FIELD_MANAGER, force=True)


def _decode_secret(secret: Object) -> CertificateSet | None:
    """Return the certificates in a Secret; None if its data are malformed."""
    data: dict[str, Any] = secret.get("data") or {}
    try:
        fields = {field: base64.b64decode(data.get(key, ""), validate=True) for field, key in _SECRET_KEYS.items()}
    except (binascii.Error, TypeError, ValueError):
        return None
    return CertificateSet(**fields)


async def _write_secret(
    client: DynamicClient, namespace: str, certificates: CertificateSet, old_secret: Object | None
) -> None:
    data = {key: base64.b64encode(getattr(certificates, field)).decode() for field, key in _SECRET_KEYS.items()}
    secret = build_manifest("v1", "Secret", SECRET, namespace, type="Opaque", data=data)
    if old_secret is None:
        await client.create(secret)
        return
    secret["metadata"]["resourceVersion"] = old_secret["metadata"]["resourceVersion"]
    await client.apply(secret, manager=FIELD_MANAGER, force=True)
