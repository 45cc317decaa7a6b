"""An up-to-date copy of all objects of a kind, by a list and a watch.

            list, page by page
              |  removes objects that are gone
              v
        +-> watch from the last version <-------+
        |     |           |                     |
        |     | ended,    | 410, or a line      | bookmark, change: version moves on
        |     | broke     | that is no event    |
        +-----+           v
                        list again (with back-off)

`_read_stream` reads one stream, `_watch_objects` reopens it when it ends, `run` relists when the version has expired.
The relist removes objects that were deleted while the stream was down. An event that is older than the kept object is
a replay, and is ignored: the deletion of an object's predecessor must not remove the object.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import aclosing, suppress
from http import HTTPStatus
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from trackbed.cluster.api.client import Client, ListMetadata, ObjectPage
from trackbed.cluster.api.errors import ApiRefusedError, KubeError
from trackbed.cluster.api.metadata import ObjectMetadata, PartialObject, is_older
from trackbed.cluster.api.metrics import UNREADABLE_OBJECTS, WATCH_LAST_CONTACT
from trackbed.cluster.api.response import Object, convert_object, decode_json

WATCH_SECONDS = 240
"""Lifetime of a watch stream; a random part is added, so that not all streams end at once."""
MAX_BACKOFF_SECONDS = 30.0
"""Longest pause between two attempts."""
_MAX_BROKEN_STREAMS = 5
"""Consecutive streams that broke before their first event, before all objects are listed again."""

_log = logging.getLogger(__name__)
_MAX_BUSY_ANSWERS = 8
"""Consecutive failures after which a busy server (429) is reported; it answers so while it starts to serve a CRD."""


class ApiObject(Protocol):
    """An object that a reflector can keep."""

    @property
    def metadata(self) -> ObjectMetadata:
        """The metadata of the object."""


_Model = TypeVar("_Model", bound=ApiObject)


class UnreadableObject(NamedTuple):
    """An object that cannot be decoded: its metadata, and why."""

    metadata: ObjectMetadata
    reason: str


class _Event(msgspec.Struct):
    """A line of a watch stream (meta/v1, WatchEvent)."""

    type: str
    object: msgspec.Raw


class _Bookmark(msgspec.Struct):
    """The object of a BOOKMARK event, which has only a version."""

    metadata: ListMetadata


class _Status(msgspec.Struct):
    """The object of an ERROR event (meta/v1, Status)."""

    code: int = 0
    message: str = ""


class Reflector(Generic[_Model]):
    """All objects of a collection, decoded as `model`, or only the object called `name`, or those with `labels`.

    `labels` has the syntax of kubectl's --selector. `objects` maps names (NAMESPACE/NAME for a namespaced kind) to
    objects; `on_change` is called after each change.
    If the user may not read an `optional` kind, this is reported once, and the kind is treated as empty.
    """

    def __init__(  # noqa: PLR0913 - the last three are options that few kinds need
        self,
        client: Client,
        path: str,
        model: type[_Model],
        on_change: Callable[[], None],
        *,
        name: str = "",
        labels: str = "",
        optional: bool = False,
    ) -> None:
        self.objects: dict[str, _Model] = {}
        self.unreadable: dict[str, UnreadableObject] = {}
        """Objects that the server admitted and `model` cannot hold, by key; `objects` does not have them."""
        self.synced = asyncio.Event()
        """Set once all objects have been listed."""
        self._client, self._path, self._model, self._on_change = client, path, model, on_change
        self._selection = {"fieldSelector": f"metadata.name={name}"} if name else {}
        self._selection |= {"labelSelector": labels} if labels else {}
        self._version = "0"
        """Version of the last list, event or bookmark, from which a watch continues."""
        self._optional, self._forbidden = optional, False
        self._failures = self._broken_streams = 0
        self._kind = _format_kind(path) if optional else path.rpartition("/")[2]

    async def run(self, report: Callable[[str], None]) -> None:
        """Keep `objects` up to date until cancelled; failures are reported, and retried with back-off."""
        while True:
            try:
                await self._list_objects()
                await self._watch_objects()
            except KubeError as error:
                status = error.status if isinstance(error, ApiRefusedError) else 0
                if status == HTTPStatus.NOT_FOUND:
                    self._drop_objects()
                elif self._optional and status == HTTPStatus.FORBIDDEN:
                    self._skip_forbidden(error, report)
                elif status != HTTPStatus.TOO_MANY_REQUESTS or self._failures >= _MAX_BUSY_ANSWERS:
                    report(str(error))
                self._failures += 1
                await asyncio.sleep(compute_backoff(self._failures))

    def _drop_objects(self) -> None:
        """Drop all objects, since the server does not serve the kind; `run` lists it again with back-off."""
        if self.objects or self.unreadable or not self.synced.is_set():
            self.objects, self.unreadable = {}, {}
            self._on_change()
        self._stop_awaiting_kind()

    def _skip_forbidden(self, error: KubeError, report: Callable[[str], None]) -> None:
        """Report once that the user may not read the kind, and continue without it.

        Objects are kept, since a starting server may refuse requests that it allows later.
        """
        if not self._forbidden:
            report(f"continues without {self._path}: {error}")
        self._forbidden = True
        self._stop_awaiting_kind()

    def _stop_awaiting_kind(self) -> None:
        """Set `synced`, so that nothing waits for the kind, and remove its metric, so that silence raises no alarm."""
        with suppress(KeyError):
            WATCH_LAST_CONTACT.remove(self._kind)
        UNREADABLE_OBJECTS.labels(self._kind).set(len(self.unreadable))
        self.synced.set()

    def _record_contact(self) -> None:
        WATCH_LAST_CONTACT.labels(self._kind).set_to_current_time()

    def record_write(self, body: Object) -> None:
        """Add an object that a write returned, so that the next pass sees it; ignore it if the watch is newer.

        Raises KubeError if `body` is not an object of the kind.
        """
        item = convert_object(body, self._model, self._path)
        version, kept = item.metadata.resource_version, self.objects.get(item.metadata.key)
        if is_older(self._version, version) and (kept is None or is_older(kept.metadata.resource_version, version)):
            self.objects[item.metadata.key] = item

    async def _list_objects(self) -> None:
        """Replace `objects` by a list of the collection. Raises KubeError."""
        objects: dict[str, _Model] = {}
        unreadable: dict[str, UnreadableObject] = {}
        version = ""
        async for page in self._client.iter_pages(self._path, ObjectPage, self._selection):
            for raw in page.items or ():
                item = self._decode_object(raw)
                if isinstance(item, UnreadableObject):
                    unreadable[item.metadata.key] = item
                else:
                    objects[item.metadata.key] = item
            version = page.metadata.resource_version
        self.objects, self.unreadable = objects, unreadable
        UNREADABLE_OBJECTS.labels(self._kind).set(len(unreadable))
        self._version = version
        self._record_contact()
        self.synced.set()
        self._on_change()

    async def _watch_objects(self) -> None:
        """Watch from the last version, and reopen streams that end or break; return once it has expired (410).

        Raises KubeError after too many broken streams.
        """
        self._broken_streams = 0
        while True:
            try:
                await self._read_stream()
                self._forget_failures()
            except ApiRefusedError as error:
                if error.status != HTTPStatus.GONE:
                    raise
                return
            except KubeError:
                self._broken_streams += 1
                if self._broken_streams > _MAX_BROKEN_STREAMS:
                    raise
                await asyncio.sleep(compute_backoff(self._broken_streams))

    async def _read_stream(self) -> None:
        """Apply the events of one stream until it ends. Raises KubeError if it breaks.

        The version moves on with each event, so that a stream that breaks is continued and not repeated.
        """
        seconds = WATCH_SECONDS + random.randrange(WATCH_SECONDS // 4)  # noqa: S311 - no secret
        params = {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": self._version}
        params |= {"timeoutSeconds": str(seconds), **self._selection}
        async with aclosing(self._client.iter_lines(self._path, params)) as lines:
            async for line in lines:
                version = self._handle_event(decode_json(line, _Event, self._path))
                if version and not is_older(version, self._version):
                    self._version = version
                self._forget_failures()

    def _forget_failures(self) -> None:
        self._failures = self._broken_streams = 0
        self._forbidden = False

    def _handle_event(self, event: _Event) -> str:
        """Apply an event to the kept objects; return its version. Raises KubeError, also for an ERROR event."""
        if event.type == "ERROR":
            status = decode_json(event.object, _Status, self._path)
            reason = "Expired" if status.code == HTTPStatus.GONE else "Error"
            raise ApiRefusedError(status.code, reason, status.message, self._path)
        self._record_contact()
        if event.type == "BOOKMARK":
            return decode_json(event.object, _Bookmark, self._path).metadata.resource_version
        item = self._decode_object(event.object)
        kept = self.objects.get(item.metadata.key) or self.unreadable.get(item.metadata.key)
        if kept is None or not is_older(item.metadata.resource_version, kept.metadata.resource_version):
            self._replace_object(item, is_deleted=event.type == "DELETED")
        return item.metadata.resource_version

    def _replace_object(self, item: _Model | UnreadableObject, *, is_deleted: bool) -> None:
        """Keep `item` in place of the object with its key, or nothing if that is deleted."""
        key = item.metadata.key
        if is_deleted or isinstance(item, UnreadableObject):
            self.objects.pop(key, None)
        else:
            self.objects[key] = item
        if isinstance(item, UnreadableObject) and not is_deleted:
            self.unreadable[key] = item
        else:
            self.unreadable.pop(key, None)
        UNREADABLE_OBJECTS.labels(self._kind).set(len(self.unreadable))
        self._on_change()

    def _decode_object(self, raw: msgspec.Raw) -> _Model | UnreadableObject:
        """Decode an object; one that the model cannot hold ends neither list nor stream.

        Raises KubeError for what has no metadata.
        """
        try:
            return decode_json(raw, self._model, self._path)
        except KubeError as error:
            metadata = decode_json(raw, PartialObject, self._path).metadata
            _log.warning("%s %s is passed over: %s", self._kind, metadata.key, error)
            return UnreadableObject(metadata, str(error))


def _format_kind(path: str) -> str:
    """Return PLURAL.GROUP for the path of a collection, since two groups may have kinds of the same name."""
    _, _, group, _, plural = path.split("/")
    return f"{plural}.{group}"


def compute_backoff(failures: int) -> float:
    """Return the back-off in seconds: 0.25 to 0.5 after the first failure, doubled by each further failure."""
    longest = min(MAX_BACKOFF_SECONDS, 0.25 * (1 << min(failures, 16)))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
