"""Metrics and health checks of a long-running program, over plain HTTP.

/metrics    Prometheus' text format
/healthz    200 while the process responds; independent of the API server, whose outage must restart no program
/readyz     200 while the program works; otherwise 503 and the reason
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus

from aiohttp import web
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, disable_created_metrics, generate_latest

from trackbed.cluster.daemon.listening import ListenAddress, serve_application

Trouble = Callable[[], str]
"""Returns why a program is not ready; empty where it is."""


@asynccontextmanager
async def serve_health(address: ListenAddress | None, trouble: Trouble) -> AsyncIterator[None]:
    """Serve the paths above within the context, unless there is no address. Raises ListenError."""
    if address is None:
        yield
        return
    disable_created_metrics()  # type: ignore[no-untyped-call]  # the library has no type for it
    async with serve_application(build_application(trouble), address):
        yield


def build_application(trouble: Trouble) -> web.Application:
    """Return the application with the paths above."""
    app = web.Application()
    app.router.add_get("/metrics", _handle_metrics)
    add_health(app, trouble)
    return app


def add_health(app: web.Application, trouble: Trouble) -> None:
    """Add /healthz and /readyz to a server."""
    app.router.add_get("/healthz", _handle_health)
    app.router.add_get("/readyz", partial(_handle_ready, trouble))


async def _handle_metrics(_: web.Request) -> web.Response:
    return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})


async def _handle_health(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


async def _handle_ready(trouble: Trouble, _: web.Request) -> web.Response:
    if reason := trouble():
        return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, text=f"{reason}\n")
    return web.Response(text="ok\n")
