"""HTTPS application for AdmissionReviews, in one process.

A review of a usual object takes less than a millisecond in the event loop, which nothing can interrupt. Reviews of
large objects run in a thread, and those of Fabrics in processes, since they would keep all others waiting.

    /pods  /pods/last  /namespaces  /fabrics  /railnodes    reviews; 503 until the cluster has been read once
    /healthz                                                200 while the process responds
    /readyz                                                 200 once the cluster has been read

TLS 1.2 or newer, and HTTP/1.1, which is all that the API server speaks to webhooks (k8s.io/apiserver,
pkg/util/webhook/client.go, HookClient). Its connections are persistent, so a new certificate applies to new connections
only. `daemon.connections` bounds connections, bytes and time.
"""

import asyncio
import gc
import logging
import os
import ssl
import time
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple, Protocol

from aiohttp import web

from trackbed.cluster.api.errors import KubeError
from trackbed.cluster.daemon.connections import BODY
from trackbed.cluster.daemon.health import add_health_routes
from trackbed.cluster.webhook import configuration, fabrics, namespaces, pods
from trackbed.cluster.webhook.cluster_state import ClusterState, Namespace
from trackbed.cluster.webhook.fabric_process import FabricReviewer, FabricsBusyError
from trackbed.cluster.webhook.metrics import REVIEWS, ReviewResult, classify_verdict
from trackbed.cluster.webhook.review import ReviewError, ReviewRequest, Verdict, parse_review, render_response
from trackbed.cluster.webhook.review_thread import ReviewThread

BODY_BYTES = 7 << 20
"""Largest request body: an object and the one before it, of 3 MiB each, and what is around them.

The API server accepts bodies of 3 MiB (k8s.io/apiserver, pkg/server/config.go, MaxRequestBodyBytes), and
controller-runtime has this bound (pkg/webhook/admission/http.go, maxRequestSize).
"""
REVIEW_SECONDS = 2.0
"""Time limit of a review; the API server waits one second longer (configuration.TIMEOUT_SECONDS).

It bounds what a review waits for: a namespace that is read, or the reviews of other large objects.
"""
FABRIC_REVIEW_SECONDS = configuration.FABRIC_TIMEOUT_SECONDS - 1.0
"""Time limit of a review of a Fabric, which may wait for others."""

_COLLECTION_THRESHOLD = 20_000
"""Allocations between two garbage collections of the youngest generation."""

log = logging.getLogger(__name__)


class CertificateError(Exception):
    """Certificate or key cannot be used; the message says why."""


class StateSource(Protocol):
    """The source of the cluster state for reviews."""

    @property
    def state(self) -> ClusterState | None:
        """The current cluster state; None until the cluster has been read."""

    async def fetch_namespace(self, name: str) -> Namespace:
        """Read a namespace from the cluster; return an empty one if it does not exist. Raises KubeError."""


class _ReviewOutcome(NamedTuple):
    """The response to an AdmissionReview, and its result for the metric."""

    response: web.Response
    result: ReviewResult


Decide = Callable[[ReviewRequest, ClusterState], Awaitable[Verdict]]
"""Function that reviews a request against a cluster state."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def build_application(source: StateSource, *, needs_certificate: bool = False) -> web.Application:
    """Return the web application that reviews requests against the cluster state of `source`.

    With `needs_certificate`, reviews are for clients with a certificate only; health checks are for all.
    """
    app = web.Application(client_max_size=BODY_BYTES)
    thread = ReviewThread()
    app.on_cleanup.append(partial(_close_thread, thread))
    reviews: dict[str, Decide] = {
        configuration.PODS: partial(_decide_pod, source, thread),
        configuration.PODS_LAST: partial(_decide_pod, source, thread, last=True),
        configuration.NAMESPACES: _make_async(namespaces.decide, thread),
        configuration.RAILNODES: _make_async(fabrics.decide_railnode, thread),
    }
    handlers: dict[str, Handler] = {
        path: partial(_handle_review, source, decide, path) for path, decide in reviews.items()
    }
    handlers[configuration.FABRICS] = partial(_handle_fabric_review, source, FabricReviewer())
    for path, handle in handlers.items():
        app.router.add_post(path, partial(_handle_authenticated, handle) if needs_certificate else handle)
    add_health_routes(app, partial(explain_unready, source))
    return app


def tune_garbage_collector() -> None:
    """Exclude all existing objects, such as modules and plans, from garbage collection, and collect the others rarely.

    A full collection would delay reviews by 30 ms. With Python's default threshold, collections interrupt a review of
    3,000 objects four times and take a sixth of its time.
    """
    gc.freeze()
    gc.set_threshold(_COLLECTION_THRESHOLD)


def create_tls_context(client_authorities: Path | None = None) -> ssl.SSLContext:
    """Return a TLS context without a certificate, which `load_certificate` sets or replaces.

    `client_authorities` is a PEM file; certificates of clients must then be of one of these, if there are any.
    Raises CertificateError.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if client_authorities is not None:
        try:
            context.load_verify_locations(client_authorities)
        except (ssl.SSLError, OSError) as error:
            raise CertificateError(f"{client_authorities} cannot be used as authorities of clients: {error}") from error
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def load_certificate(tls: ssl.SSLContext, pem: bytes) -> None:
    """Load a certificate and its key (PEM) into a TLS context, for new connections. Raises CertificateError.

    The ssl module requires a file; a memory file keeps the key off the disk. A temporary context loads the pair first,
    since a context that has accepted the certificate but not the key is unusable.
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
    """Return why reviews cannot be served now; empty if they can."""
    return "the cluster has not been read yet" if source.state is None else ""


async def _handle_review(source: StateSource, decide: Decide, path: str, http_request: web.Request) -> web.Response:
    """Respond to one AdmissionReview, and record its duration and result."""
    body = http_request[BODY]
    start = time.perf_counter()
    response, result = await _review_body(source, decide, path, body)
    REVIEWS.labels(path, result).observe(time.perf_counter() - start)
    return response


async def _handle_fabric_review(
    source: StateSource, reviewer: FabricReviewer, http_request: web.Request
) -> web.Response:
    """Respond to one AdmissionReview of a Fabric, for which the clients take turns."""
    decide = partial(reviewer.decide, client=http_request.remote or "")
    return await _handle_review(source, decide, configuration.FABRICS, http_request)


async def _handle_authenticated(handle: Handler, http_request: web.Request) -> web.StreamResponse:
    """Respond to a client with a certificate, whose authority the handshake has verified."""
    if http_request.get_extra_info("peercert"):
        return await handle(http_request)
    return web.Response(status=HTTPStatus.FORBIDDEN, text="reviews are for clients with a certificate\n")


async def _review_body(source: StateSource, decide: Decide, path: str, body: bytes) -> _ReviewOutcome:
    """Return the response to an AdmissionReview, and the result for the metric."""
    state = source.state
    if state is None:
        return _build_failure(HTTPStatus.SERVICE_UNAVAILABLE, explain_unready(source))
    limit_seconds = FABRIC_REVIEW_SECONDS if path == configuration.FABRICS else REVIEW_SECONDS
    try:
        request = parse_review(body)
        async with asyncio.timeout(limit_seconds):
            verdict = await decide(request, state)
    except ReviewError as error:
        return _build_failure(HTTPStatus.BAD_REQUEST, str(error))
    except KubeError as error:
        return _build_failure(HTTPStatus.SERVICE_UNAVAILABLE, f"the pod's namespace cannot be read: {error}")
    except FabricsBusyError as error:
        return _build_failure(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
    except TimeoutError:
        return _build_failure(HTTPStatus.GATEWAY_TIMEOUT, f"no verdict within {limit_seconds} s")
    if verdict.refusal is not None:
        log.info("%s %s/%s refused: %s", path, request.namespace, request.name, verdict.refusal)
    response = web.Response(body=render_response(request, verdict), content_type="application/json")
    return _ReviewOutcome(response, classify_verdict(verdict))


def _build_failure(status: HTTPStatus, reason: str) -> _ReviewOutcome:
    """Return the outcome of a review without a verdict."""
    return _ReviewOutcome(web.Response(status=status, text=f"{reason}\n"), "failed")


async def _decide_pod(
    source: StateSource, thread: ReviewThread, request: ReviewRequest, state: ClusterState, *, last: bool = False
) -> Verdict:
    namespace = state.namespaces.get(request.namespace)
    if namespace is None:
        namespace = await source.fetch_namespace(request.namespace)
    return await thread.run(request, partial(pods.decide, request, namespace, state, last=last))


def _make_async(decide: Callable[[ReviewRequest, ClusterState], Verdict], thread: ReviewThread) -> Decide:
    """Return a coroutine function that calls a synchronous `decide`."""

    async def decide_async(request: ReviewRequest, state: ClusterState) -> Verdict:
        return await thread.run(request, partial(decide, request, state))

    return decide_async


async def _close_thread(thread: ReviewThread, _app: web.Application) -> None:
    thread.close()
