"""HTTPS server for AdmissionReviews: one process, one thread; a review takes well under a millisecond.

    /pods  /pods/last  /namespaces  /fabrics  /railnodes    reviews; 503 until the cluster has been read once
    /healthz                                                the process responds
    /readyz                                                 it can review

At least TLS 1.2, and HTTP/1.1: the API server prefers HTTP/2 and accepts HTTP/1.1 (ALPN); its connections are
persistent. A new certificate applies to new connections; open connections are kept.
"""

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
from trackbed.cluster.daemon.listening import ListenAddress, serve_application
from trackbed.cluster.daemon.observed import add_health
from trackbed.cluster.webhook import configuration, fabrics, namespaces, pods, railnodes
from trackbed.cluster.webhook.cluster_state import ClusterState, Namespace
from trackbed.cluster.webhook.metrics import REVIEWS, ReviewResult, classify_verdict
from trackbed.cluster.webhook.review import ReviewError, ReviewRequest, Verdict, parse_review, render_response

BODY_BYTES = 3 << 20
"""Largest request of the API server."""
REVIEW_SECONDS = 2.0
"""Deadline of a review; the API server waits a second longer."""

_COLLECTION_THRESHOLD = 20_000
"""Allocations between two garbage collections."""

log = logging.getLogger(__name__)


class CertificateError(Exception):
    """An unusable certificate or key; the message names the file."""


class StateSource(Protocol):
    """Provides the cluster state to reviews."""

    @property
    def state(self) -> ClusterState | None:
        """The newest state; None until the cluster has been read."""

    async def fetch_namespace(self, name: str) -> Namespace:
        """Read a namespace that the state lacks; return an empty one where there is none. Raises KubeError."""


Decide = Callable[[ReviewRequest, ClusterState], Awaitable[Verdict]]


def serve_reviews(source: StateSource, tls: ssl.SSLContext, address: ListenAddress) -> AbstractAsyncContextManager[int]:
    """Serve reviews within a context that yields the port. Raises ListenError."""
    return serve_application(build_application(source), address, tls)


def build_application(source: StateSource) -> web.Application:
    """Return the application with the paths above."""
    app = web.Application(client_max_size=BODY_BYTES)
    reviews: dict[str, Decide] = {
        configuration.PODS: partial(_decide_pod, source),
        configuration.PODS_LAST: partial(_decide_pod, source, last=True),
        configuration.NAMESPACES: _to_async(namespaces.decide),
        configuration.FABRICS: _to_async(fabrics.decide),
        configuration.RAILNODES: _to_async(railnodes.decide),
    }
    for path, decide in reviews.items():
        app.router.add_post(path, partial(_handle, source, decide, path))
    add_health(app, partial(explain_unready, source))
    return app


def tune_garbage_collector() -> None:
    """Collect garbage rarely, and exempt all existing objects: modules and plans are permanent.

    A collection that includes them delays reviews by 30 ms. With Python's default threshold a review of 3,000 objects
    is interrupted four times, for a sixth of its time.
    """
    gc.freeze()
    gc.set_threshold(_COLLECTION_THRESHOLD)


def create_tls_context() -> ssl.SSLContext:
    """Return a TLS context without a certificate; `load_certificate` sets or replaces it at any time."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def load_certificate(tls: ssl.SSLContext, pem: bytes) -> None:
    """Use this certificate from now on. Raises CertificateError.

    The ssl module requires a file; a memory file keeps the key off the disk. The certificate is tried on another
    context first, since a context that accepted the certificate but not the key would be unusable.
    """
    descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(pem)
        stream.flush()
        try:
            for context in (create_tls_context(), tls):
                context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        except (ssl.SSLError, OSError) as error:
            raise CertificateError(f"certificate and key cannot be used: {error}") from error


def explain_unready(source: StateSource) -> str:
    """Return why nothing can be reviewed now; empty where reviews are served."""
    return "the cluster has not been read yet" if source.state is None else ""


async def _handle(source: StateSource, decide: Decide, path: str, http: web.Request) -> web.Response:
    body = await http.read()
    start = time.perf_counter()
    response, result = await _review(source, decide, path, body)
    REVIEWS.labels(path, result).observe(time.perf_counter() - start)
    return response


async def _review(source: StateSource, decide: Decide, path: str, body: bytes) -> tuple[web.Response, ReviewResult]:
    state = source.state
    if state is None:
        return _fail(HTTPStatus.SERVICE_UNAVAILABLE, explain_unready(source))
    try:
        request = parse_review(body)
        async with asyncio.timeout(REVIEW_SECONDS):
            verdict = await decide(request, state)
    except ReviewError as error:
        return _fail(HTTPStatus.BAD_REQUEST, str(error))
    except KubeError as error:
        return _fail(HTTPStatus.SERVICE_UNAVAILABLE, f"the pod's namespace cannot be read: {error}")
    except TimeoutError:
        return _fail(HTTPStatus.GATEWAY_TIMEOUT, f"no verdict within {REVIEW_SECONDS} s")
    if verdict.refusal is not None:
        log.info("%s %s/%s refused: %s", path, request.namespace, request.name, verdict.refusal)
    response = web.Response(body=render_response(request, verdict), content_type="application/json")
    return response, classify_verdict(verdict)


def _fail(status: HTTPStatus, reason: str) -> tuple[web.Response, ReviewResult]:
    return web.Response(status=status, text=f"{reason}\n"), "failed"


async def _decide_pod(
    source: StateSource, request: ReviewRequest, state: ClusterState, *, last: bool = False
) -> Verdict:
    namespace = state.namespaces.get(request.namespace)
    if namespace is None:
        namespace = await source.fetch_namespace(request.namespace)
    return pods.decide(request, namespace, state, last=last)


def _to_async(decide: Callable[[ReviewRequest, ClusterState], Verdict]) -> Decide:
    async def decide_async(request: ReviewRequest, state: ClusterState) -> Verdict:
        return decide(request, state)

    return decide_async
