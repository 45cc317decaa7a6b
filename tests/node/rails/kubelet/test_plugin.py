"""The device plugins beside a kubelet that restarts, and ports that lose their carrier."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.node.rails.kubelet.fake import SECONDS, Kubelet, running
from trackbed.node.rails.kubelet import plugin, wire
from trackbed.node.rails.kubelet.messages import Device, Offer
from trackbed.node.rails.kubelet.plugin import Plugins

BOTH: Offer = {0: (Device("rail0-0", healthy=True, numa_node=0),), 5: (Device("rail5-0", healthy=True),)}


FILES = ("/dev/infiniband/uverbs5", "/dev/infiniband/rdma_cm")


@pytest.fixture
def kubelet(tmp_path: Path) -> Kubelet:
    return Kubelet(tmp_path)


@contextmanager
def offering(kubelet: Kubelet, offer: dict[str, Offer]) -> Iterator[None]:
    """The plugins in a thread of their own, offering offer["now"]."""
    stop, loop = asyncio.Event(), asyncio.new_event_loop()
    plugins = Plugins(kubelet.folder / "device-plugins", lambda: offer["now"], lambda rail: FILES if rail == 5 else ())

    async def serve() -> None:
        await plugins.run(stop)
        # Calls of a stopped server end by themselves, a moment later; one that is cancelled then may never end.
        if calls := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(calls, timeout=SECONDS)

    def run() -> None:
        loop.run_until_complete(serve())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(SECONDS)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "WATCH_SECONDS", 0.05)


def test_each_rail_is_a_resource_with_its_devices(kubelet: Kubelet) -> None:
    with running(kubelet), offering(kubelet, {"now": BOTH}):
        assert kubelet.heard() == ("v1beta1", "trackbed-rail0.sock", "trackbed.dev/rail0")
        assert kubelet.heard() == ("v1beta1", "trackbed-rail5.sock", "trackbed.dev/rail5")
        assert kubelet.devices("trackbed.dev/rail0") == (("rail0-0", "Healthy"),)
        assert kubelet.devices("trackbed.dev/rail5") == (("rail5-0", "Healthy"),)


def test_a_port_that_loses_its_carrier_is_told_at_once_and_told_again_when_it_is_back(kubelet: Kubelet) -> None:
    offer = {"now": BOTH}
    with running(kubelet), offering(kubelet, offer):
        kubelet.heard(), kubelet.heard()
        assert kubelet.devices("trackbed.dev/rail5") == (("rail5-0", "Healthy"),)
        offer["now"] = {**BOTH, 5: (Device("rail5-0", healthy=False),)}
        assert kubelet.devices("trackbed.dev/rail5") == (("rail5-0", "Unhealthy"),)
        offer["now"] = BOTH
        assert kubelet.devices("trackbed.dev/rail5") == (("rail5-0", "Healthy"),)
    assert kubelet.lists["trackbed.dev/rail0"].qsize() == 1


def test_a_kubelet_that_restarted_is_told_again(kubelet: Kubelet) -> None:
    with offering(kubelet, {"now": BOTH}):
        for _ in range(2):
            with running(kubelet):
                assert {kubelet.heard()[2], kubelet.heard()[2]} == {"trackbed.dev/rail0", "trackbed.dev/rail5"}
                assert kubelet.devices("trackbed.dev/rail0") == (("rail0-0", "Healthy"),)
            for path in (kubelet.folder / "device-plugins").iterdir():  # as a kubelet does when it starts
                path.unlink()


def test_allocate_names_the_devices_of_every_container_as_cdi_does(kubelet: Kubelet) -> None:
    request = wire.encode_message(
        *wire.expand_repeated_field(1, [wire.encode_message((1, "rail0-0")), wire.encode_message((1, "rail0-1"))])
    )
    two = tuple(Device(f"rail0-{number}", healthy=True) for number in range(2))
    with running(kubelet), offering(kubelet, {"now": {**BOTH, 0: two}}):
        kubelet.heard(), kubelet.heard()
        with grpc.insecure_channel(f"unix:{kubelet.folder}/device-plugins/trackbed-rail0.sock") as channel:
            allocate: Any = channel.unary_unary("/v1beta1.DevicePlugin/Allocate")
            each = wire.get_messages(wire.parse_fields(allocate(request, timeout=SECONDS)), 1)
            named = [
                wire.get_last_string(wire.parse_fields(wire.get_messages(wire.parse_fields(container), 5)[0]), 1)
                for container in each
            ]
            assert named == ["trackbed.dev/rail=rail0-0", "trackbed.dev/rail=rail0-1"]
            options: Any = channel.unary_unary("/v1beta1.DevicePlugin/GetDevicePluginOptions")
            assert options(b"", timeout=SECONDS) == b""


def test_allocate_names_the_device_files_of_a_rail_for_runtimes_without_cdi(kubelet: Kubelet) -> None:
    request = wire.encode_message((1, wire.encode_message((1, "rail5-0"))))
    with running(kubelet), offering(kubelet, {"now": BOTH}):
        kubelet.heard(), kubelet.heard()
        with grpc.insecure_channel(f"unix:{kubelet.folder}/device-plugins/trackbed-rail5.sock") as channel:
            allocate: Any = channel.unary_unary("/v1beta1.DevicePlugin/Allocate")
            (container,) = wire.get_messages(wire.parse_fields(allocate(request, timeout=SECONDS)), 1)
    specs = [wire.parse_fields(spec) for spec in wire.get_messages(wire.parse_fields(container), 3)]
    texts = [tuple(wire.get_last_string(spec, number) for number in (1, 2, 3)) for spec in specs]
    assert texts == [(path, path, "rw") for path in FILES]


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\xff",
        b"\x0a\xff\xff\xff\xff\x0f",
        b"\x08\x01",
        wire.encode_message((1, wire.encode_message((1, b"\xff\xfe")))),
        wire.encode_message((1, wire.encode_message((1, "rail0-1")))),
        wire.encode_message((1, wire.encode_message((1, "../../x\n")))),
        wire.encode_message((1, wire.encode_message(*wire.expand_repeated_field(1, ["rail9-0"] * 100_000)))),
    ],
    ids=["cut", "too long", "a number", "no UTF-8", "not offered", "no id", "many"],
)
def test_a_garbled_allocation_is_refused_and_the_next_one_is_answered(kubelet: Kubelet, request_bytes: bytes) -> None:
    with running(kubelet), offering(kubelet, {"now": BOTH}):
        kubelet.heard(), kubelet.heard()
        with grpc.insecure_channel(f"unix:{kubelet.folder}/device-plugins/trackbed-rail0.sock") as channel:
            allocate: Any = channel.unary_unary("/v1beta1.DevicePlugin/Allocate")
            with pytest.raises(grpc.RpcError) as error:
                allocate(request_bytes, timeout=SECONDS)
            assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
            good = wire.encode_message((1, wire.encode_message((1, "rail0-0"))))
            assert b"trackbed.dev/rail=rail0-0" in allocate(good, timeout=SECONDS)


@pytest.mark.parametrize("behaviour", ["slow", "refuses"])
def test_a_kubelet_that_does_not_register_rails_is_asked_again(
    kubelet: Kubelet, monkeypatch: pytest.MonkeyPatch, behaviour: str
) -> None:
    monkeypatch.setattr(plugin, "_CALL_SECONDS", 0.2)
    released, answer, calls = threading.Event(), kubelet.register, 0

    def register(request: bytes, context: grpc.ServicerContext) -> bytes:
        nonlocal calls
        calls += 1
        if calls > 2:
            return answer(request, context)
        if behaviour == "slow":
            released.wait(SECONDS)
        else:
            context.abort(grpc.StatusCode.UNKNOWN, "\x1b[31mno\n" * 1000)
        return b"\xff" * 1000

    monkeypatch.setattr(kubelet, "register", register)
    with running(kubelet), offering(kubelet, {"now": BOTH}):
        assert kubelet.heard()[2] == "trackbed.dev/rail0"
        released.set()
