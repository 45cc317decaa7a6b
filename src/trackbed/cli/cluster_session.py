"""Sessions with a cluster, for commands that end by themselves: an API client and its event loop."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar

from trackbed.cli.options import exit_unknown, refuse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator

    from trackbed.cluster.api.dynamic import DynamicClient

_T = TypeVar("_T")


class ClusterSession:
    """An API client and its event loop. The loop runs only inside `run`, so Ctrl-C interrupts a prompt between runs."""

    def __init__(self, kubeconfig: str | None = None, context: str | None = None) -> None:
        import asyncio

        from trackbed.cluster.api.dynamic import connect

        self.client: DynamicClient = connect(kubeconfig, context)
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        self._runner.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        with self._runner:
            self.run(self.client.__aexit__())

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine to completion and return its result."""
        return self._runner.run(coroutine)

    def collect(self, items: AsyncIterator[_T]) -> list[_T]:
        """Return all items of an asynchronous iterator."""

        async def gather() -> list[_T]:
            return [item async for item in items]

        return self.run(gather())


@contextmanager
def open_cluster(kubeconfig: str | None, context: str | None) -> Iterator[ClusterSession]:
    """Yield a session. Exit with status 2 without a usable kubeconfig, 3 if the API server does not respond."""
    from trackbed.cluster.api.errors import ConfigurationError, KubeError

    try:
        with ClusterSession(kubeconfig, context) as cluster:
            yield cluster
    except ConfigurationError as error:
        refuse(error)
    except KubeError as error:
        exit_unknown(_name_cause(str(error)))


def _name_cause(message: str) -> str:
    """Return the message of an API server, after its cause and what to do if they are known."""
    from trackbed.cluster.causes.catalogue import diagnose

    cause = diagnose(message)
    return f"{cause.title} ({cause.id}): {message}; what to do: {cause.fix}" if cause else message
