"""A kind's objects, kept as the server has them: listed once, watched from there on.

            list, page by page
              |  what is not in it any more is gone
              v
        +-> watch from the version seen last <--+
        |     |           |                     |
        |     | ended,    | 410, or something   | bookmark, change: version moves on
        |     | broke     | that is no event    |
        +-----+           v
                        list again (after a while that grows)

One layer for each trouble: `_watch` knows a stream, `_follow` its end, `run` that only a list helps. What vanished
while nobody watched is gone after the list.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

import msgspec

from trackbed.cluster.api.errors import KubeError, RefusedError
from trackbed.cluster.api.live import Live, decoded
from trackbed.cluster.api.metrics import WATCH_HEARD

PAGE = 500
WATCH_SECONDS = 240
"""How long a server keeps a stream; a random part more, so that not all end at once."""
GONE = 410
_FORBIDDEN, _NOT_FOUND = 403, 404
LONGEST_PAUSE_SECONDS = 30.0


class Meta(Protocol):
    """Metadata of an object, as far as it is read here."""

    @property
    def name(self) -> str:
        """Name of the object; kinds that are kept here are cluster-scoped, or read in one namespace."""

    @property
    def resourceVersion(self) -> str:  # noqa: N802 - the API's name
        """Version of the object: of two, the larger number is newer (KEP-5504)."""


class Kept(Protocol):
    """An object of a kind that is kept."""

    @property
    def metadata(self) -> Meta:
        """Its metadata."""


_Kind = TypeVar("_Kind", bound=Kept)


class _Version(msgspec.Struct):
    resourceVersion: str = ""  # noqa: N815 - the API's name
    more: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct):
    metadata: _Version
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Bookmark(msgspec.Struct):
    metadata: _Version


class _Status(msgspec.Struct):
    code: int = 0
    message: str = ""


class Reflector(Generic[_Kind]):
    """All objects at a path, or the one of a name, decoded as `shape`; `changed` is called after each change.

    Of an `optional` kind that this user may not read there is nothing, which is told once.
    """

    def __init__(  # noqa: PLR0913 - the last two are seldom given
        self,
        live: Live,
        path: str,
        shape: type[_Kind],
        changed: Callable[[], None],
        *,
        name: str = "",
        optional: bool = False,
    ) -> None:
        self.objects: dict[str, _Kind] = {}
        self.synced = asyncio.Event()
        """Set once everything has been listed."""
        self._live, self._path, self._shape, self._changed = live, path, shape, changed
        self._chosen = {"fieldSelector": f"metadata.name={name}"} if name else {}
        self._seen = 0
        self._optional, self._forbidden, self._troubles = optional, False, 0
        self._kind = _kind(path) if optional else path.rpartition("/")[2]

    async def run(self, tell: Callable[[str], None]) -> None:
        """Keep `objects` as the server has them, until cancelled; troubles are told and outlived."""
        while True:
            try:
                await self._follow(await self._list())
            except KubeError as error:
                if isinstance(error, RefusedError) and error.status == _NOT_FOUND:
                    self._none()
                elif self._optional and isinstance(error, RefusedError) and error.status == _FORBIDDEN:
                    self._may_not(error, tell)
                else:
                    tell(str(error))
                self._troubles += 1
                await asyncio.sleep(pause_seconds(self._troubles))

    def _none(self) -> None:
        """The server has no such kind: there is nothing of it, and it is asked again now and then."""
        if self.objects or not self.synced.is_set():
            self.objects = {}
            self._changed()
        self._unheard()

    def _may_not(self, error: RefusedError, tell: Callable[[str], None]) -> None:
        """Do without; what was read before stays, for a server that just starts may refuse what it will allow."""
        if not self._forbidden:
            tell(f"goes on without {self._path}: {error}")
        self._forbidden = True
        self._unheard()

    def _unheard(self) -> None:
        """Nothing will be told of this kind: whoever waits for it waits no longer, and nobody is alarmed."""
        with suppress(KeyError):
            WATCH_HEARD.remove(self._kind)
        self.synced.set()

    def _heard(self) -> None:
        WATCH_HEARD.labels(self._kind).set_to_current_time()

    def wrote(self, raw: dict[str, object]) -> None:
        """Take note of what a write came back with, so that the next look sees it; what the watch has passed is old."""
        one = msgspec.convert(raw, self._shape)
        if int(one.metadata.resourceVersion) > self._seen:
            self._put(one)

    async def _list(self) -> str:
        found: dict[str, _Kind] = {}
        more = version = ""
        while True:
            page = await self._live.get(
                self._path, _Page, limit=str(PAGE), **_only(**{"continue": more}), **self._chosen
            )
            for raw in page.items or ():
                one = decoded(raw, self._shape, self._path)
                found[one.metadata.name] = one
            version, more = page.metadata.resourceVersion, page.metadata.more
            if not more:
                break
        self.objects = found
        self._seen = int(version)
        self._heard()
        self.synced.set()
        self._changed()
        return version

    async def _follow(self, version: str) -> None:
        """Watch, and watch again from where it ended, until only a list can help."""
        troubles = 0
        while True:
            try:
                version = await self._watch(version)
                troubles = self._troubles = 0
                self._forbidden = False
            except RefusedError as error:
                if error.status != GONE:
                    raise
                return
            except KubeError:
                troubles += 1
                if troubles > _PATIENCE:
                    raise
                await asyncio.sleep(pause_seconds(troubles))

    async def _watch(self, version: str) -> str:
        """One stream, to its end; the version to go on from. RefusedError where there is no going on."""
        seconds = WATCH_SECONDS + random.randrange(WATCH_SECONDS // 4)  # noqa: S311 - no secret
        params = {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": version}
        async for line in self._live.lines(self._path, {**params, "timeoutSeconds": str(seconds), **self._chosen}):
            version = self._event(decoded(line, _Event, self._path)) or version
        return version

    def _event(self, event: _Event) -> str:
        if event.type == "ERROR":
            told = decoded(event.object, _Status, self._path)
            raise RefusedError(told.code, "Expired" if told.code == GONE else "Error", told.message, self._path)
        self._heard()
        self._troubles = 0
        if event.type == "BOOKMARK":
            return decoded(event.object, _Bookmark, self._path).metadata.resourceVersion
        one = decoded(event.object, self._shape, self._path)
        self._seen = max(self._seen, int(one.metadata.resourceVersion))
        if event.type == "DELETED":
            self.objects.pop(one.metadata.name, None)
        else:
            self._put(one)
        self._changed()
        return one.metadata.resourceVersion

    def _put(self, one: _Kind) -> None:
        held = self.objects.get(one.metadata.name)
        if held is None or int(held.metadata.resourceVersion) < int(one.metadata.resourceVersion):
            self.objects[one.metadata.name] = one


def _kind(path: str) -> str:
    """A kind as kubectl names it, with its group: two may have the same name."""
    _, _, group, _, plural = path.split("/")
    return f"{plural}.{group}"


_PATIENCE = 5
"""Streams that break one after the other before everything is listed again."""


def pause_seconds(troubles: int) -> float:
    """How long to leave a server alone after so many troubles in a row: half a second, doubling, with a random part."""
    return min(LONGEST_PAUSE_SECONDS, 0.25 * (1 << min(troubles, 16))) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


def _only(**given: str) -> dict[str, str]:
    return {name: value for name, value in given.items() if value}
