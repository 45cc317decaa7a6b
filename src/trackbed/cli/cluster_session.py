"""A cluster for the length of a command: the only place where the command line runs the asynchronous client."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar

import click

from trackbed.cli.options import refuse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator

    from trackbed.cluster.api.dynamic import DynamicClient

_T = TypeVar("_T")


class ClusterSession:
    """A client and its event loop. The loop runs only within `run`, so that Ctrl-C ends a prompt between two runs."""

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

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine to its end."""
        return self._runner.run(work)

    def collect(self, items: AsyncIterator[_T]) -> list[_T]:
        """Return all items of an asynchronous iterator."""

        async def gather() -> list[_T]:
            return [item async for item in items]

        return self.run(gather())


@contextmanager
def open_cluster(kubeconfig: str | None, context: str | None) -> Iterator[ClusterSession]:
    """Yield the cluster; an error ends the command: 2 without a usable kubeconfig, 3 without an answer."""
    from trackbed.cluster.api.errors import ConfigurationError, KubeError

    try:
        with ClusterSession(kubeconfig, context) as cluster:
            yield cluster
    except ConfigurationError as error:
        refuse(str(error))
    except KubeError as error:
        click.echo(f"trackbed: {error}", err=True)
        raise SystemExit(3) from error
