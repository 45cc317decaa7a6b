"""Plain HTTP for those who watch over a program that stays.

/metrics    numbers, in Prometheus' text format
/healthz    the process answers; nothing else is asked, so an API server that is away ends nobody
/readyz     it does its work; 503 and the reason where not
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus

from aiohttp import web
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, disable_created_metrics, generate_latest

from trackbed.cluster.daemon.listening import ListenAddress, listening

Trouble = Callable[[], str]
"""Why a program does not do its work now; empty where it does."""


@asynccontextmanager
async def observed(at: ListenAddress | None, trouble: Trouble) -> AsyncIterator[None]:
    """Serve the paths above until the block ends; nothing where there is no address. Raises ListenError."""
    if at is None:
        yield
        return
    disable_created_metrics()  # type: ignore[no-untyped-call]  # the library says no types of it
    async with listening(application(trouble), at):
        yield


def application(trouble: Trouble) -> web.Application:
    """The paths above."""
    app = web.Application()
    app.router.add_get("/metrics", _metrics)
    add_health(app, trouble)
    return app


def add_health(app: web.Application, trouble: Trouble) -> None:
    """/healthz and /readyz, for any server."""
    app.router.add_get("/healthz", _alive)
    app.router.add_get("/readyz", partial(_ready, trouble))


async def _metrics(_: web.Request) -> web.Response:
    return web.Response(body=generate_latest(), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})


async def _alive(_: web.Request) -> web.Response:
    return web.Response(text="ok\n")


async def _ready(trouble: Trouble, _: web.Request) -> web.Response:
    told = trouble()
    return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, text=f"{told}\n") if told else web.Response(text="ok\n")
