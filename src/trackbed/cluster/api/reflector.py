"""Keeps a kind's objects as the server has them: listed once, then watched.

            list, page by page
              |  removes objects that are gone
              v
        +-> watch from the last version <-------+
        |     |           |                     |
        |     | ended,    | 410, or a line      | bookmark, change: version moves on
        |     | broke     | that is no event    |
        +-----+           v
                        list again (with back-off)

`_watch` reads one stream, `_follow` reopens it when it ends, `run` relists when the version has expired. The relist
removes objects that were deleted while the stream was down.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Generic, Protocol, TypeVar

import msgspec

from trackbed.cluster.api.client import Client, ListMetadata, ObjectList
from trackbed.cluster.api.errors import ApiRefusedError, KubeError
from trackbed.cluster.api.metadata import ObjectMetadata
from trackbed.cluster.api.metrics import WATCH_HEARD
from trackbed.cluster.api.response import Object, decode

WATCH_SECONDS = 240
"""Lifetime of a stream; a random part is added, so that not all end at once."""
LONGEST_PAUSE_SECONDS = 30.0
_BROKEN_STREAMS = 5
"""Consecutive broken streams before everything is listed again."""


class ApiObject(Protocol):
    """An object of a kind that a reflector keeps."""

    @property
    def metadata(self) -> ObjectMetadata:
        """Its metadata."""


_Kind = TypeVar("_Kind", bound=ApiObject)


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Bookmark(msgspec.Struct):
    metadata: ListMetadata


class _Status(msgspec.Struct):
    code: int = 0
    message: str = ""


class Reflector(Generic[_Kind]):
    """All objects at a path, or the one of a name, decoded as `shape`; `changed` is called after each change.

    `objects` has them by name; those of a namespaced kind by NAMESPACE/NAME. An `optional` kind that this user may not
    read counts as empty, which is reported once.
    """

    def __init__(  # noqa: PLR0913 - the last two are rarely given
        self,
        client: Client,
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
        self._client, self._path, self._shape, self._changed = client, path, shape, changed
        self._selection = {"fieldSelector": f"metadata.name={name}"} if name else {}
        self._version = 0
        self._optional, self._forbidden, self._failures = optional, False, 0
        self._kind = _name_kind(path) if optional else path.rpartition("/")[2]

    async def run(self, report: Callable[[str], None]) -> None:
        """Keep `objects` as the server has them, until cancelled; failures are reported and retried."""
        while True:
            try:
                await self._follow(await self._list())
            except KubeError as error:
                status = error.status if isinstance(error, ApiRefusedError) else 0
                if status == HTTPStatus.NOT_FOUND:
                    self._clear()
                elif self._optional and status == HTTPStatus.FORBIDDEN:
                    self._skip_forbidden(error, report)
                else:
                    report(str(error))
                self._failures += 1
                await asyncio.sleep(compute_pause(self._failures))

    def _clear(self) -> None:
        """Drop all objects of a kind that the server does not have; it is listed again with back-off."""
        if self.objects or not self.synced.is_set():
            self.objects = {}
            self._changed()
        self._stop_waiting()

    def _skip_forbidden(self, error: KubeError, report: Callable[[str], None]) -> None:
        """Continue without the kind; objects are kept, since a starting server may refuse what it will allow."""
        if not self._forbidden:
            report(f"goes on without {self._path}: {error}")
        self._forbidden = True
        self._stop_waiting()

    def _stop_waiting(self) -> None:
        """Release those that wait for the kind, and drop its metric, so that silence raises no alarm."""
        with suppress(KeyError):
            WATCH_HEARD.remove(self._kind)
        self.synced.set()

    def _record_contact(self) -> None:
        WATCH_HEARD.labels(self._kind).set_to_current_time()

    def record_write(self, body: Object) -> None:
        """Keep the object that a write returned, so that the next pass sees it; an older version is ignored."""
        item = msgspec.convert(body, self._shape)
        if int(item.metadata.resource_version) > self._version:
            self._put(item)

    async def _list(self) -> str:
        objects: dict[str, _Kind] = {}
        version = ""
        async for page in self._client.iter_pages(self._path, ObjectList, self._selection):
            for raw in page.items or ():
                item = decode(raw, self._shape, self._path)
                objects[item.metadata.key] = item
            version = page.metadata.resource_version
        self.objects = objects
        self._version = int(version)
        self._record_contact()
        self.synced.set()
        self._changed()
        return version

    async def _follow(self, version: str) -> None:
        """Watch, and reopen the stream where it ended, until only a list can help."""
        failures = 0
        while True:
            try:
                version = await self._watch(version)
                failures = self._failures = 0
                self._forbidden = False
            except ApiRefusedError as error:
                if error.status != HTTPStatus.GONE:
                    raise
                return
            except KubeError:
                failures += 1
                if failures > _BROKEN_STREAMS:
                    raise
                await asyncio.sleep(compute_pause(failures))

    async def _watch(self, version: str) -> str:
        """Read one stream to its end; return the version to continue from. Raises ApiRefusedError."""
        seconds = WATCH_SECONDS + random.randrange(WATCH_SECONDS // 4)  # noqa: S311 - no secret
        params = {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": version}
        params |= {"timeoutSeconds": str(seconds), **self._selection}
        async for line in self._client.iter_lines(self._path, params):
            version = self._handle(decode(line, _Event, self._path)) or version
        return version

    def _handle(self, event: _Event) -> str:
        """Apply an event to `objects`; return its version."""
        if event.type == "ERROR":
            status = decode(event.object, _Status, self._path)
            reason = "Expired" if status.code == HTTPStatus.GONE else "Error"
            raise ApiRefusedError(status.code, reason, status.message, self._path)
        self._record_contact()
        self._failures = 0
        if event.type == "BOOKMARK":
            return decode(event.object, _Bookmark, self._path).metadata.resource_version
        item = decode(event.object, self._shape, self._path)
        self._version = max(self._version, int(item.metadata.resource_version))
        if event.type == "DELETED":
            self.objects.pop(item.metadata.key, None)
        else:
            self._put(item)
        self._changed()
        return item.metadata.resource_version

    def _put(self, item: _Kind) -> None:
        current = self.objects.get(item.metadata.key)
        if current is None or int(current.metadata.resource_version) < int(item.metadata.resource_version):
            self.objects[item.metadata.key] = item


def _name_kind(path: str) -> str:
    """Return a kind as kubectl names it, with its group: two groups may have kinds of one name."""
    _, _, group, _, plural = path.split("/")
    return f"{plural}.{group}"


def compute_pause(failures: int) -> float:
    """Return the back-off after so many failures in a row: half a second, doubling, with a random part."""
    longest = min(LONGEST_PAUSE_SECONDS, 0.25 * (1 << min(failures, 16)))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
