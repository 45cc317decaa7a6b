"""Metrics and health over a real socket; and that all metrics are told of in docs/reference/metrics.md."""

from __future__ import annotations

import asyncio
import re
from http.client import HTTPConnection
from pathlib import Path

from prometheus_client import Counter, Gauge, Histogram
from trackbed_lab.ports import hold_ports

from trackbed.cluster.api import metrics
from trackbed.cluster.controller import metrics as of_roll_outs
from trackbed.cluster.daemon import connections
from trackbed.cluster.daemon.health import serve_health
from trackbed.cluster.daemon.http_server import ListenAddress
from trackbed.cluster.webhook import metrics as of_reviews

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"


def test_numbers_and_health_are_told_in_plain_text() -> None:
    troubles = ["", "nobody answers"]

    def asked(port: int, path: str) -> tuple[int, str, str]:
        connection = HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read().decode()
        connection.close()
        return response.status, response.headers["Content-Type"], body

    async def run() -> None:
        with hold_ports(1) as (port,):
            pass
        async with serve_health(ListenAddress("127.0.0.1", port), lambda: troubles[-1]):
            status, kind, body = await asyncio.to_thread(asked, port, "/metrics")
            assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
            assert 'trackbed_api_requests_total{code="200",verb="OPTIONS"} 1.0\n' in body
            assert "_created" not in body
            assert (await asyncio.to_thread(asked, port, "/healthz"))[::2] == (200, "ok\n")
            assert (await asyncio.to_thread(asked, port, "/readyz"))[::2] == (503, "nobody answers\n")
            troubles.pop()
            assert (await asyncio.to_thread(asked, port, "/readyz"))[::2] == (200, "ok\n")

    metrics.API_REQUESTS.labels("OPTIONS", 200).inc()
    asyncio.run(run())


def test_nothing_is_served_where_nobody_asks_for_it() -> None:
    async def run() -> int:
        before = len(asyncio.all_tasks())
        async with serve_health(None, lambda: ""):
            return len(asyncio.all_tasks()) - before

    assert asyncio.run(run()) == 0


def test_every_metric_is_told_of_by_name_and_kind() -> None:
    ours = [value for module in (metrics, connections, of_reviews, of_roll_outs) for value in vars(module).values()]
    families = [family for item in ours if isinstance(item, Counter | Gauge | Histogram) for family in item.collect()]
    exported = {(family.name + "_total" * (family.type == "counter"), family.type) for family in families}
    assert exported == set(re.findall(r"^\| `(\w+)` \| (\w+) \|", PAGE.read_text(), re.MULTILINE))
