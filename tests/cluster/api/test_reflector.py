"""What is kept is what the server has, whatever becomes of the streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from trackbed.cluster.api import client as kube
from trackbed.cluster.api import reflector
from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import ApiRefusedError, KubeError, UnreachableError
from trackbed.cluster.api.metadata import ObjectMetadata
from trackbed.cluster.api.reflector import Reflector

SECONDS = 60.0
MAPS = "/api/v1/namespaces/reflected/configmaps"


class Annotated(ObjectMetadata, frozen=True, rename="camel"):
    """Metadata with annotations."""

    annotations: dict[str, str] = msgspec.field(default_factory=dict)


class Map(msgspec.Struct, frozen=True):
    """A ConfigMap."""

    metadata: Annotated


class Kept:
    """A reflector at work, and a way to wait for what it holds."""

    def __init__(self, live: Client, path: str, **options: Any) -> None:
        self.changed = asyncio.Event()
        self.messages: list[str] = []
        self.reflector = Reflector(live, path, Map, self.changed.set, **options)

    async def until(self, names: set[str]) -> None:
        """Wait until exactly these are kept."""
        async with asyncio.timeout(SECONDS):
            while {item.metadata.name for item in self.reflector.objects.values()} != names:
                await self.changed.wait()
                self.changed.clear()


def watched(live: Client, path: str, act: Callable[[Kept], Awaitable[None]], **options: Any) -> list[str]:
    """Do something beside a reflector; what it told."""

    async def run() -> list[str]:
        async with live:
            kept = Kept(live, path, **options)
            work = asyncio.create_task(kept.reflector.run(kept.messages.append))
            try:
                await act(kept)
            finally:
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
            return kept.messages

    return asyncio.run(run())


def one(name: str, version: int | str, kind: str = "ADDED", **annotations: str) -> bytes:
    metadata = {"name": name, "resourceVersion": str(version), "annotations": annotations}
    return msgspec.json.encode({"type": kind, "object": {"metadata": metadata}})


class Scripted(Client):
    """A server that lists and streams as it is told: for what no real one does when it is asked."""

    def __init__(self, *script: Sequence[str | bytes | KubeError] | KubeError) -> None:
        self.script = list(script)
        self.versions: list[str] = []
        self.list_count = 0

    async def __aexit__(self, *_: object) -> None:
        return

    async def iter_pages(
        self, path: str, model: type[Any], params: Mapping[str, str], accept: str = ""
    ) -> AsyncIterator[Any]:
        """The next list of names."""
        del path, params, accept
        self.list_count += 1
        names = self._next()
        items = [{"metadata": {"name": name, "resourceVersion": "5"}} for name in names]
        listing = {"metadata": {"resourceVersion": "10"}, "items": items}
        yield msgspec.json.decode(msgspec.json.encode(listing), type=model)

    async def iter_lines(self, path: str, params: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """The next stream."""
        del path
        self.versions.append(params["resourceVersion"])
        for line in self._next():
            if isinstance(line, KubeError):
                raise line
            yield line
        if not self.script:
            await asyncio.Event().wait()  # nothing more happens

    def _next(self) -> Any:
        now = self.script.pop(0) if self.script else []
        if isinstance(now, KubeError):
            raise now
        return now


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "compute_backoff", lambda _: 0.0)


GONE = b'{"type": "ERROR", "object": {"code": 410, "message": "too old"}}'


@pytest.mark.parametrize(
    "gone", [[GONE], ApiRefusedError(410, "Expired", "too old", "x")], ids=["in the stream", "at once"]
)
def test_a_version_that_is_too_old_leads_to_a_list_and_what_vanished_is_gone(gone: Any) -> None:
    live = Scripted(["a", "b"], [one("c", 11)], gone, ["b", "d"])
    watched(live, "x", lambda kept: kept.until({"b", "d"}))
    assert live.versions[:2] == ["10", "11"]


def test_a_stream_that_breaks_goes_on_where_it_was() -> None:
    live = Scripted(["a"], [one("b", 12)], UnreachableError("cut"), [one("c", 13), one("a", 14, "DELETED")])
    watched(live, "x", lambda kept: kept.until({"b", "c"}))
    assert live.versions[:3] == ["10", "12", "12"]


CUT = UnreachableError("cut")


@pytest.mark.parametrize("kind", ["ADDED", "DELETED", "BOOKMARK"])
def test_a_stream_that_breaks_after_an_event_goes_on_behind_it(kind: str) -> None:
    live = Scripted(["a"], [one("b", 40, kind), CUT], CUT, [one("c", 41), one("b", 42)])
    watched(live, "x", lambda kept: kept.until({"a", "b", "c"}))
    assert live.versions[:3] == ["10", "40", "40"]


def test_streams_that_break_after_an_event_lead_to_no_list() -> None:
    streams: list[list[bytes | KubeError]] = [[one("b", version), CUT] for version in range(11, 31)]
    live = Scripted(["a"], *streams, [one("c", 31)])
    assert watched(live, "x", lambda kept: kept.until({"a", "b", "c"})) == []
    assert live.list_count == 1


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
@pytest.mark.parametrize("annotation", ["new", 7], ids=["readable", "unreadable"])
def test_an_event_that_is_older_than_its_object_is_ignored(kind: str, annotation: Any) -> None:
    async def act(kept: Kept) -> None:
        await kept.until({"a", "b"} if annotation == "new" else {"b"})
        versions = {name: item.metadata.resource_version for name, item in kept.reflector.objects.items()}
        versions |= {name: item.metadata.resource_version for name, item in kept.reflector.unreadable.items()}
        assert versions == {"a": "12", "b": "13"}

    events = [one("a", 11, "DELETED"), one("a", 12, note=annotation), one("a", 11, kind), one("b", 13)]
    watched(Scripted(["a"], events), "x", act)


def test_versions_that_are_no_numbers_are_applied_as_they_come() -> None:
    async def act(kept: Kept) -> None:
        await kept.until({"a", "b"})
        kept.reflector.record_write({"metadata": {"name": "written", "resourceVersion": "y"}})
        assert kept.reflector.objects["a"].metadata.resource_version == "x1"

    live = Scripted(["a"], [one("a", "x2", "MODIFIED"), one("a", "x1", "MODIFIED"), CUT], [one("b", "x3")])
    watched(live, "x", act)
    assert live.versions[:2] == ["10", "x1"]


def test_a_bookmark_moves_the_version_on() -> None:
    live = Scripted(["a"], [one("", 40, "BOOKMARK")], [one("b", 41)])
    watched(live, "x", lambda kept: kept.until({"a", "b"}))
    assert live.versions[:2] == ["10", "40"]


def test_what_is_no_event_is_told_and_outlived() -> None:
    live = Scripted(["a"], *([[b"garbage"]] * 6), ["a", "b"])
    lists = watched(live, "x", lambda kept: kept.until({"a", "b"}))
    assert "the server's answer is not what Kubernetes answers" in lists[0]


def test_an_optional_kind_that_may_not_be_read_is_done_without_and_told_of_once() -> None:
    no = ApiRefusedError(403, "Forbidden", "list is not allowed", "x")

    async def act(kept: Kept) -> None:
        await kept.reflector.synced.wait()
        await kept.until({"a"})

    lists = watched(Scripted(no, no, no, ["a"]), "/apis/g/v1/x", act, optional=True)
    assert lists == ["continues without /apis/g/v1/x: x: list is not allowed (403 Forbidden)"]


def test_a_kind_that_may_be_listed_and_not_watched_is_listed_ever_more_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    no = ApiRefusedError(403, "Forbidden", "watch is not allowed", "x")
    pauses: list[int] = []

    def at_once(troubles: int) -> float:
        pauses.append(troubles)
        return 0.0

    monkeypatch.setattr(reflector, "compute_backoff", at_once)
    watched(Scripted(["a"], no, ["a"], no, ["a"], no, ["b"]), "/apis/g/v1/x", lambda k: k.until({"b"}), optional=True)
    assert pauses == [1, 2, 3]


def test_a_server_that_is_busy_for_a_moment_is_asked_again_and_one_that_stays_busy_is_reported() -> None:
    busy = ApiRefusedError(429, "TooManyRequests", "storage is (re)initializing", "x")
    assert watched(Scripted(*[busy] * 8, ["a"]), "x", lambda kept: kept.until({"a"})) == []
    reports = watched(Scripted(*[busy] * 9, ["a"]), "x", lambda kept: kept.until({"a"}))
    assert reports == ["x: storage is (re)initializing (429 TooManyRequests)"]


def test_rights_that_are_lost_for_a_moment_leave_what_was_read() -> None:
    no = ApiRefusedError(403, "Forbidden", "list is not allowed", "x")

    async def act(kept: Kept) -> None:
        await kept.until({"a"})
        while not kept.messages:
            await kept.until({"a"})
            await asyncio.sleep(0)
        await kept.until({"a", "b"})

    watched(Scripted(["a"], no, no, ["a", "b"]), "/apis/g/v1/x", act, optional=True)


def test_a_write_is_seen_at_once_and_an_old_one_never() -> None:
    async def act(kept: Kept) -> None:
        await kept.until({"a"})
        kept.reflector.record_write({"metadata": {"name": "new", "resourceVersion": "11"}})
        kept.reflector.record_write({"metadata": {"name": "deleted-long-ago", "resourceVersion": "9"}})
        kept.reflector.record_write({"metadata": {"name": "new", "resourceVersion": "10"}})
        assert {name: kept.metadata.resource_version for name, kept in kept.reflector.objects.items()} == {
            "a": "5",
            "new": "11",
        }

    watched(Scripted(["a"], [b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "10"}}}']), "x", act)


def test_a_write_that_returned_something_else_is_an_error_of_the_server() -> None:
    kept = Reflector(Scripted(), "x", Map, lambda: None)
    with pytest.raises(KubeError, match="x: the server's answer is not what Kubernetes answers"):
        kept.record_write({"kind": "Status"})


def test_a_stream_is_closed_before_the_next_list() -> None:
    class Open(Scripted):
        streams = 0
        listed_beside: ClassVar[list[int]] = []

        async def iter_pages(self, *parameters: Any, **fields: Any) -> AsyncIterator[Any]:
            self.listed_beside.append(self.streams)
            async for page in super().iter_pages(*parameters, **fields):
                yield page

        async def iter_lines(self, *parameters: Any) -> AsyncGenerator[bytes, None]:
            self.streams += 1
            try:
                async for line in super().iter_lines(*parameters):
                    yield line
            finally:
                self.streams -= 1

    live = Open(["a"], [GONE, GONE], ["b"])
    watched(live, "x", lambda kept: kept.until({"b"}))
    assert live.listed_beside == [0, 0]


def test_a_real_servers_objects_are_followed_page_by_page(api_server: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kube, "PAGE_SIZE", 2)

    async def act(kept: Kept) -> None:
        async with kube.connect(str(api_server)) as other:
            await kept.until({f"m{number}" for number in range(5)})
            await other.delete(f"{MAPS}/m3")
            annotations = {"next-line": "a\u0085b\u2028c"}
            await other.create(MAPS, {"metadata": {"name": "odd", "annotations": annotations}})
            await kept.until({"m0", "m1", "m2", "m4", "odd"})
            assert kept.reflector.objects["reflected/odd"].metadata.annotations == annotations

    async def before() -> None:
        async with kube.connect(str(api_server)) as live:
            await live.create("/api/v1/namespaces", {"metadata": {"name": "reflected"}})
            for number in range(5):
                await live.create(MAPS, {"metadata": {"name": f"m{number}"}})

    asyncio.run(before())
    watched(kube.connect(str(api_server)), MAPS, act)
    watched(kube.connect(str(api_server)), MAPS, lambda kept: kept.until({"odd"}), name="odd")
