"""An API client for synchronous code, with its event loop in a separate thread.

Several threads may share it, and so may coroutines of other event loops.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Self, TypeVar

from trackbed.cluster.api.discovery import ApiResource
from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.dynamic import connect as connect_dynamic
from trackbed.cluster.api.response import ApiResponse, Object, check_response

_T = TypeVar("_T")


class BlockingClient:
    """A DynamicClient (`dynamic`) whose methods block; `run` does the same for any coroutine that uses it."""

    def __init__(self, dynamic: DynamicClient) -> None:
        self.dynamic = dynamic
        self.sent = self.written = 0
        """How often something was asked of the server, and how often something was written."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="api-client", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self.dynamic.__aexit__())
        self.run(self._loop.shutdown_asyncgens())
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine to completion and return its result."""
        self.sent += 1
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def collect(self, items: AsyncIterator[_T]) -> list[_T]:
        """Return all items of an asynchronous iterator."""

        async def gather() -> list[_T]:
            return [item async for item in items]

        return self.run(gather())

    def read_version(self) -> str:
        """Return the server's version."""
        return self.run(self.dynamic.read_version())

    def read_metrics(self) -> str:
        """Return the server's metrics, in Prometheus' text format."""
        response = self.run(self.dynamic.client.request("GET", "/metrics"))
        check_response(response, "metrics")
        return response.text

    def create(self, body: Object, **options: Any) -> ApiResponse:  # noqa: ANN401 - the options of DynamicClient
        """Create an object."""
        self.written += 1
        return self.run(self.dynamic.create(body, **options))

    def apply(self, body: Object, **options: Any) -> ApiResponse:  # noqa: ANN401 - the options of DynamicClient
        """Apply an object on the server."""
        self.written += 1
        return self.run(self.dynamic.apply(body, **options))

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object:
        """Return an object."""
        return self.run(self.dynamic.get(api_version, kind, name, namespace))

    def find(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """Return an object, or None if it does not exist."""
        return self.run(self.dynamic.find(api_version, kind, name, namespace))

    def list(
        self, api_version: str, kind: str, namespace: str | None = None, *, selector: str = "", fields: str = ""
    ) -> list[Object]:
        """Return all objects of a kind."""
        return self.collect(self.dynamic.iter_objects(api_version, kind, namespace, selector=selector, fields=fields))

    def delete(self, body: Object) -> None:
        """Delete an object, if it exists."""
        self.written += 1
        self.run(self.dynamic.delete(body))

    def find_kind(self, name: str) -> ApiResource:
        """Return the resource of a name that kubectl accepts: plural, singular, kind, or Kind.group."""
        return self.run(self.dynamic.resolve_kind(name))


def connect(kubeconfig: str | None = None) -> BlockingClient:
    """Return a client for the API server of a kubeconfig. Raises ConfigurationError."""
    return BlockingClient(connect_dynamic(kubeconfig))
