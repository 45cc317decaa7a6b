"""Which rails a pod was given, as a kubelet says it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.node.rails.kubelet.fake import Kubelet, running
from trackbed.node.rails.errors import CniError, Code
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
        pods = PodResources(tmp_path / "pod-resources/kubelet.sock")
        assert list(pods.read_devices("default", "job").items()) == [(0, "rail0-7"), (3, "rail3-0")]
        assert pods.read_devices("default", "plain") == {}
        assert pods.read_devices("other", "job") == {6: "rail6-1"}


@pytest.mark.parametrize("has_get", [True, False])
def test_a_pod_that_the_kubelet_does_not_know_is_told(tmp_path: Path, has_get: bool) -> None:
    with running(Kubelet(tmp_path, has_get=has_get)), pytest.raises(CniError) as error:
        PodResources(tmp_path / "pod-resources/kubelet.sock").read_devices("default", "ghost")
    assert error.value.code == Code.TRY_AGAIN
    assert error.value.message == "the kubelet does not say which rails pod default/ghost has: it does not list the pod"


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
    assert select_rail_devices((GrantedDevices(resource, ("a",)),)) == dict.fromkeys(rails, "a")
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
