"""Which rails a pod was given, as a kubelet says it."""

from __future__ import annotations

import threading
from pathlib import Path

import grpc
import pytest

from tests.node.rails.kubelet.fake import Kubelet, running
from trackbed.node.rails.errors import CniError, Code
from trackbed.node.rails.kubelet import pods, wire
from trackbed.node.rails.kubelet.messages import GrantedDevices
from trackbed.node.rails.kubelet.pods import PodResources, select_rail_devices


@pytest.mark.parametrize("has_get", [True, False])
def test_a_pods_rails_are_those_of_all_its_containers(tmp_path: Path, has_get: bool) -> None:
    granted = {
        ("default", "job"): {"trackbed.dev/rail3": ["rail3-0"], "trackbed.dev/rail0": ["rail0-7"], "gpu": ["g0"]},
        ("default", "plain"): {},
        ("other", "job"): {"trackbed.dev/rail6": ["rail6-1"]},
    }
    kubelet = Kubelet(tmp_path, dict(granted), has_get)
    with running(kubelet):
        resources = PodResources(tmp_path / "pod-resources/kubelet.sock")
        assert list(resources.read_devices("default", "job").items()) == [(0, "rail0-7"), (3, "rail3-0")]
        assert resources.read_devices("default", "plain") == {}
        assert resources.read_devices("other", "job") == {6: "rail6-1"}


@pytest.mark.parametrize("has_get", [True, False])
def test_a_pod_that_the_kubelet_does_not_know_is_told(tmp_path: Path, has_get: bool) -> None:
    with running(Kubelet(tmp_path, has_get=has_get)), pytest.raises(CniError) as error:
        PodResources(tmp_path / "pod-resources/kubelet.sock").read_devices("default", "ghost")
    assert error.value.code == Code.TRY_AGAIN
    assert error.value.message == "the kubelet does not say which rails pod default/ghost has: it does not list the pod"


def test_pods_with_thousands_of_containers_hide_no_other_from_the_agent(tmp_path: Path) -> None:
    crowd = {f"trackbed.dev/{number:0>63}": ["x"] for number in range(9000)}
    granted = {("evil", f"p{number}"): crowd for number in range(8)}
    with running(
        Kubelet(tmp_path, {**granted, ("default", "job"): {"trackbed.dev/rail3": ["rail3-0"]}}, has_get=False)
    ):
        resources = PodResources(tmp_path / "pod-resources/kubelet.sock")
        assert resources.read_devices("default", "job") == {3: "rail3-0"}


def test_a_kubelet_that_is_not_there_is_told_with_its_socket(tmp_path: Path) -> None:
    with pytest.raises(CniError) as error:
        PodResources(tmp_path / "kubelet.sock").read_devices("default", "job")
    assert error.value.code == Code.TRY_AGAIN
    assert str(tmp_path / "kubelet.sock") in error.value.details


@pytest.mark.parametrize(
    ("resource", "rails"),
    [
        ("trackbed.dev/rail0", (0,)),
        ("trackbed.dev/rail12", (12,)),
        ("trackbed.dev/rail01", ()),
        ("trackbed.dev/rail", ()),
        ("trackbed.dev/rail-1", ()),
        ("trackbedxdev/rail1", ()),
        ("other.dev/rail1", ()),
    ],
)
def test_only_our_resources_are_rails(resource: str, rails: tuple[int, ...]) -> None:
    device = f"rail{rails[0] if rails else 1}"
    assert select_rail_devices((GrantedDevices(resource, (device,)),)) == dict.fromkeys(rails, device)
    assert select_rail_devices((GrantedDevices(resource, ()),)) == {}


@pytest.mark.parametrize(
    "granted",
    [
        (GrantedDevices("trackbed.dev/rail2", ("rail2-0", "rail2-1")),),
        (GrantedDevices("trackbed.dev/rail2", ("rail2-0",)), GrantedDevices("trackbed.dev/rail2", ("rail2-1",))),
    ],
)
def test_two_devices_of_one_rail_are_refused(granted: tuple[GrantedDevices, ...]) -> None:
    with pytest.raises(CniError, match=r"more than one trackbed\.dev/rail2") as error:
        select_rail_devices(granted)
    assert "ask for 1, in one container only" in error.value.details


@pytest.mark.parametrize(
    "device", ["", "a", "rail3", "rail2-", "rail2--1", "rail2-01", "rail2-" + "9" * 5000, "rail2-1\n", "rail2-\u0661"]
)
def test_a_device_that_no_rail_has_is_refused(device: str) -> None:
    with pytest.raises(CniError, match=r"a device of trackbed\.dev/rail2 that the agent does not offer"):
        select_rail_devices((GrantedDevices("trackbed.dev/rail2", (device,)),))


def _build_answer(namespace: str, name: str, device: bytes) -> bytes:
    devices = wire.encode_message((1, "trackbed.dev/rail2"), (2, device))
    return wire.encode_message(
        (1, wire.encode_message((1, name), (2, namespace), (3, wire.encode_message((2, devices)))))
    )


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"\xff", "a number has no end"),
        (b"\x0a\xff\xff\xff\xff\x0f", "a field is longer than its message"),
        (_build_answer("default", "job", b"\xff\xfe"), "field 2 is no UTF-8"),
        (_build_answer("default", "other", b"rail2-0"), "it answers about another pod"),
        (bytes(17 << 20), "larger than max"),
        (None, "\\[31mno"),
        ("slow", "Deadline Exceeded"),
    ],
    ids=["cut", "too long", "no UTF-8", "another pod", "17 MiB", "escape sequences", "slow"],
)
def test_a_garbled_oversized_or_slow_answer_is_told_in_a_line_and_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes | str | None, reason: str
) -> None:
    monkeypatch.setattr(pods, "_SECONDS", 1.0)
    kubelet, released = Kubelet(tmp_path), threading.Event()

    def get(_: bytes, context: grpc.ServicerContext) -> bytes:
        if answer == "slow":
            released.wait(20)
        elif answer is None:
            context.abort(grpc.StatusCode.INTERNAL, "\x1b[31mno\n" * 300)
        return answer if isinstance(answer, bytes) else b""

    monkeypatch.setattr(kubelet, "get", get)
    with running(kubelet), pytest.raises(CniError, match=reason) as error:
        PodResources(tmp_path / "pod-resources/kubelet.sock").read_devices("default", "job")
    released.set()
    assert error.value.code == Code.TRY_AGAIN
    assert error.value.message.isprintable()
    assert len(error.value.message) < 500
