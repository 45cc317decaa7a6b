"""HTTPS for the API server: reviews in, reviews out. One process, one thread; a review takes well under a millisecond.

    /pods  /pods/last  /namespaces  /fabrics  /railnodes    reviews; 503 until the cluster has been read once
    /healthz                                                the process answers
    /readyz                                                 it can review

TLS 1.2 at least, and HTTP/1.1: the API server asks for HTTP/2 and takes what is offered (ALPN); its connections
stay open. A certificate that was replaced is shown to new connections, the others go on.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import ssl
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from http import HTTPStatus
from typing import Protocol

from aiohttp import web

from trackbed.cluster.api.errors import KubeError
from trackbed.cluster.daemon.listening import ListenAddress, listening
from trackbed.cluster.daemon.observed import add_health
from trackbed.cluster.webhook import configuration, fabrics, namespaces, pods, railnodes
from trackbed.cluster.webhook.known import Known, Namespace
from trackbed.cluster.webhook.metrics import REVIEWS, Outcome, outcome_of
from trackbed.cluster.webhook.review import ReviewError, ReviewRequest, Verdict, answer, read

BODY_BYTES = 3 << 20
"""The API server itself takes no larger request."""
REVIEW_SECONDS = 2.0
"""What a review may take; the API server waits a second longer."""

_COLLECTOR_OBJECTS = 20_000

log = logging.getLogger(__name__)


class CertificateError(Exception):
    """A certificate or key that cannot be used; the message names the file."""


class Source(Protocol):
    """Where reviews get what they go by."""

    @property
    def known(self) -> Known | None:
        """The newest there is; None until the cluster has been read."""

    async def namespace(self, name: str) -> Namespace:
        """A namespace that is not known yet, asked for now; an empty one where there is none. Raises KubeError."""


Decide = Callable[[ReviewRequest, Known], Awaitable[Verdict]]


def serving(source: Source, tls: ssl.SSLContext, at: ListenAddress) -> AbstractAsyncContextManager[int]:
    """Serve reviews until the block ends; yields the port. Raises ListenError."""
    return listening(application(source), at, tls)


def application(source: Source) -> web.Application:
    """The paths above, over what `source` knows."""
    app = web.Application(client_max_size=BODY_BYTES)
    reviews: dict[str, Decide] = {
        configuration.PODS: partial(_pod, source),
        configuration.PODS_LAST: partial(_pod, source, last=True),
        configuration.NAMESPACES: _now(namespaces.decide),
        configuration.FABRICS: _now(fabrics.decide),
        configuration.RAILNODES: _now(railnodes.decide),
    }
    for path, decide in reviews.items():
        app.router.add_post(path, partial(_review, source, decide, path))
    add_health(app, partial(trouble, source))
    return app


def spare_reviews_the_collector() -> None:
    """Have Python look for garbage seldom, and never among what is there now: modules and plans stay.

    A look through all of them holds every review up for 30 ms; with Python's own threshold a review of 3,000 objects
    is interrupted four times, a sixth of its time.
    """
    gc.freeze()
    gc.set_threshold(_COLLECTOR_OBJECTS)


def tls_context() -> ssl.SSLContext:
    """TLS for a server that has no certificate yet: `load_cert_chain` gives it one, also later on."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def show(tls: ssl.SSLContext, pem: bytes) -> None:
    """Show this certificate from now on; through memory, as the ssl module wants a file, and a key is for nobody.

    It is tried on a context of its own first: one that took the certificate and not the key could show neither.
    """
    descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(pem)
        stream.flush()
        try:
            for context in (tls_context(), tls):
                context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        except (ssl.SSLError, OSError) as error:
            raise CertificateError(f"certificate and key cannot be used: {error}") from error


def trouble(source: Source) -> str:
    """Why nothing can be reviewed now; empty where it can."""
    return "the cluster has not been read yet" if source.known is None else ""


async def _review(source: Source, decide: Decide, path: str, http: web.Request) -> web.Response:
    body = await http.read()
    begun = time.perf_counter()
    told, outcome = await _reviewed(source, decide, path, body)
    REVIEWS.labels(path, outcome).observe(time.perf_counter() - begun)
    return told


async def _reviewed(source: Source, decide: Decide, path: str, body: bytes) -> tuple[web.Response, Outcome]:
    known = source.known
    if known is None:
        return _failed(HTTPStatus.SERVICE_UNAVAILABLE, trouble(source))
    try:
        request = read(body)
        async with asyncio.timeout(REVIEW_SECONDS):
            verdict = await decide(request, known)
    except ReviewError as error:
        return _failed(HTTPStatus.BAD_REQUEST, str(error))
    except KubeError as error:
        return _failed(HTTPStatus.SERVICE_UNAVAILABLE, f"the pod's namespace cannot be read: {error}")
    except TimeoutError:
        return _failed(HTTPStatus.GATEWAY_TIMEOUT, f"no verdict within {REVIEW_SECONDS} s")
    if verdict.refusal is not None:
        log.info("%s %s/%s refused: %s", path, request.namespace, request.name, verdict.refusal)
    return web.Response(body=answer(request, verdict), content_type="application/json"), outcome_of(verdict)


def _failed(status: HTTPStatus, why: str) -> tuple[web.Response, Outcome]:
    return web.Response(status=status, text=f"{why}\n"), "failed"


async def _pod(source: Source, request: ReviewRequest, known: Known, *, last: bool = False) -> Verdict:
    namespace = known.namespaces.get(request.namespace)
    if namespace is None:
        namespace = await source.namespace(request.namespace)
    return pods.decide(request, namespace, known, last=last)


def _now(decide: Callable[[ReviewRequest, Known], Verdict]) -> Decide:
    async def decided(request: ReviewRequest, known: Known) -> Verdict:
        return decide(request, known)

    return decided
