"""The webhook as a program: reads the cluster, keeps its certificate fresh, serves, and has the API server call it.

In this order, so that nobody is sent here before there is an answer. Ends on SIGTERM and SIGINT: no new connections,
reviews under way are answered. The configurations stay: what asked for rails must not start without them meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.errors import KubeError
from trackbed.cluster.daemon.listening import ListenAddress
from trackbed.cluster.daemon.observed import observed
from trackbed.cluster.daemon.serving import until_one_ends, until_told
from trackbed.cluster.webhook.certificates import expiry
from trackbed.cluster.webhook.configuration import Where
from trackbed.cluster.webhook.keeping import keep, publish
from trackbed.cluster.webhook.metrics import CERTIFICATE_EXPIRY
from trackbed.cluster.webhook.server import (
    CertificateError,
    serving,
    show,
    spare_reviews_the_collector,
    tls_context,
    trouble,
)
from trackbed.cluster.webhook.watching import Watched

OWN_SECONDS = 600.0
"""How often we look whether our certificate is due, and write the configurations again: somebody may have changed them.
Well within `certificates.TOLD`, so that every replica tells a new authority before one signs with it."""
FILES_SECONDS = 10.0
"""How often files of others are read again; cert-manager renews with days left."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """Where to listen, how we are called, the folder of certificates that others make, and where to be watched."""

    at: ListenAddress
    where: Where
    certificates: Path | None = None
    metrics: ListenAddress | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What the certificate must be for."""
        host = urlsplit(self.where.url).hostname if self.where.url else None
        return (host,) if host else self.where.names


async def run(client: DynamicClient, settings: WebhookSettings, ready: Callable[[int], None]) -> None:
    """Serve until told to end; `ready` is called with the port once the API server has been told of us.

    Raises KubeError where the cluster cannot be read or written at the start, CertificateError and ListenError.
    """
    async with client:
        log.debug("API server %s", await client.read_version())  # fails here where the cluster cannot be reached
        source = Watched(client.client)
        async with observed(settings.metrics, partial(trouble, source)):
            await until_told(until_one_ends(source.follow(), _serve(source, client, settings, ready)))


async def _serve(
    source: Watched, client: DynamicClient, settings: WebhookSettings, ready: Callable[[int], None]
) -> None:
    await source.begun()
    spare_reviews_the_collector()
    shown = _Shown(client, settings)
    await shown.renew()
    async with serving(source, shown.tls, settings.at) as port:
        await publish(client, settings.where, shown.bundle)
        ready(port)
        await shown.follow()


class _Shown:
    """The certificate that clients are shown, kept fresh; `bundle` is what they trust, None if others tell them."""

    def __init__(self, client: DynamicClient, settings: WebhookSettings) -> None:
        self._client, self._settings = client, settings
        self._loaded = b""
        self.bundle: bytes | None = None
        self.tls = tls_context()

    async def renew(self) -> bool:
        """Make, take over or read what must be shown now; whether the bundle is another."""
        before = self.bundle
        folder = self._settings.certificates
        if folder is None:
            held = await keep(self._client, self._settings.where.namespace, self._settings.names)
            self.bundle, pem = held.bundle, held.certificate + held.key
        else:
            pem = _files(folder)
        if pem != self._loaded:
            show(self.tls, pem)
            self._loaded = pem
            CERTIFICATE_EXPIRY.set(expiry(pem).timestamp())
        return before != self.bundle

    async def follow(self) -> None:
        """Renew for ever; what cannot be renewed now is shown as it was."""
        seconds = OWN_SECONDS if self._settings.certificates is None else FILES_SECONDS
        while True:
            await asyncio.sleep(seconds)
            try:
                if await self.renew() or self._settings.certificates is None:
                    await publish(self._client, self._settings.where, self.bundle)
            except (KubeError, CertificateError) as error:
                log.warning("the certificate stays as it is for now: %s", error)


def _files(folder: Path) -> bytes:
    try:
        return b"".join((folder / name).read_bytes() for name in ("tls.crt", "tls.key"))
    except OSError as error:
        raise CertificateError(f"cannot read {error.filename}: {error.strerror}") from error
