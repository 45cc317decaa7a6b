"""Metrics and health checks of a long-running program, by plain HTTP.

/metrics    Prometheus' text format
/healthz    200 while the process responds; an outage of the API server must not restart the program
/readyz     200 while the program works; otherwise 503 and the reason
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus

from aiohttp import web
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, disable_created_metrics, generate_latest

from trackbed.cluster.daemon.http_server import ListenAddress, serve_application

ReadinessCheck = Callable[[], str]
"""Function that returns why a program is not ready; an empty string if it is ready."""


@asynccontextmanager
async def serve_health(address: ListenAddress | None, check_readiness: ReadinessCheck) -> AsyncIterator[None]:
    """Serve metrics and health checks within the context, or nothing if `address` is None. Raises ListenError."""
    if address is None:
        yield
        return
    disable_created_metrics()  # type: ignore[no-untyped-call]  # prometheus_client has no annotation for it
    async with serve_application(build_application(check_readiness), address):
        yield


def build_application(check_readiness: ReadinessCheck) -> web.Application:
    """Return a web application with /metrics, /healthz and /readyz."""
    app = web.Application()
    app.router.add_get("/metrics", _handle_metrics)
    add_health_routes(app, check_readiness)
    return app


def add_health_routes(app: web.Application, check_readiness: ReadinessCheck) -> None:
    """Add /healthz and /readyz to a web application."""
    app.router.add_get("/healthz", _handle_health)
    app.router.add_get("/readyz", partial(_handle_readiness, check_readiness))


async def _handle_metrics(_: web.Request) -> web.Response:
    return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})


async def _handle_health(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


async def _handle_readiness(check_readiness: ReadinessCheck, _: web.Request) -> web.Response:
    if reason := check_readiness():
        return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, text=f"{reason}\n")
    return web.Response(text="ok\n")
