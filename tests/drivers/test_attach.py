"""Pods get ports and VFs of each driver's model, by CNI ADD and DEL in modes move and sriov."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.drivers.bnxt import Bnxt
from tests.drivers.conftest import Rig
from tests.drivers.hardware import Hardware
from tests.drivers.ice import Ice
from tests.drivers.igb import Igb
from tests.drivers.mlx5 import Mlx5
from tests.drivers.place import furnish, plan, read_state
from tests.drivers.port import Port
from tests.drivers.runtime import Runtime, start_runtime
from tests.host.places import Host
from tests.host.steps.fabrics import NODE_SUBNET
from tests.node.rails.node import inside
from trackbed.host.steps import iter_settings
from trackbed.host.transaction.apply import apply
from trackbed.host.transaction.compare import compare
from trackbed.kernel.netlink.netns import read_inode
from trackbed.node.rails.errors import CniError

NODE = plan(addressing=NODE_SUBNET)
TOS = 106


@contextmanager
def serve(rig: Rig, driver: type[Port], **fields: object) -> Iterator[tuple[Host, Hardware, Runtime]]:
    """A host as planned, with an agent."""
    place, hardware = rig(driver, **fields)
    place = furnish(place)
    apply(place.machine, iter_settings(NODE), place.records)
    with start_runtime(NODE, place) as runtime:
        yield place, hardware, runtime


def list_differences(place: Host) -> list[str]:
    return [change.subject for change in compare(place.machine, iter_settings(NODE)).changes]


@pytest.mark.parametrize(
    ("driver", "fields"),
    [
        pytest.param(
            *(Mlx5, {}),
            id="mlx5",
            marks=pytest.mark.support("NIC driver", "mlx5", "modelled", "a VF in a pod, mode sriov; rules cited: 26"),
        ),
        pytest.param(Mlx5, {"dpu_mode": True}, id="mlx5 in DPU mode"),
        pytest.param(
            *(Bnxt, {}),
            id="bnxt",
            marks=pytest.mark.support(
                "NIC driver", "bnxt_en", "modelled", "a VF in a pod, mode sriov; rules cited: 17"
            ),
        ),
        pytest.param(
            *(Ice, {"firmware_agent": False}),
            id="ice",
            marks=pytest.mark.support(
                "NIC driver", "ice/irdma", "modelled", "a VF in a pod, mode sriov; rules cited: 22"
            ),
        ),
        pytest.param(
            *(Igb, {}),
            id="igb",
            marks=pytest.mark.support("NIC driver", "igb", "modelled", "a VF in a pod, mode sriov; rules cited: 8"),
        ),
    ],
)
def test_a_vf_goes_into_a_pod_with_its_address_and_its_class_and_comes_back(
    rig: Rig, driver: type[Port], fields: dict[str, object]
) -> None:
    with serve(rig, driver, **fields) as (place, hardware, runtime):
        before = read_state(place, hardware), list_differences(place)
        pod = runtime.make_pod("pod")
        runtime.add(pod, "sriov")
        interfaces, namespace = runtime.run(inside, pod).links, runtime.run(read_inode, pod)
        for rail, port in enumerate(hardware.ports):
            vf = port.vfs[0]
            assert interfaces[f"rail{rail}"].mac == vf.mac.hex(":")
            assert port.passes(0, vf.mac)
            for device in hardware.rdma.devices:
                if device.pci == hardware.locate_vf(port, 0):
                    assert (device.namespace, device.tos) == (namespace, TOS)
        runtime.delete(pod, "sriov")
        runtime.end_pod(pod)
        assert list_differences(place) == before[1]
        ports, names, _ = read_state(place, hardware)
        assert (ports, names) == before[0][:2]


@pytest.mark.parametrize(
    ("driver", "fields"),
    [
        pytest.param(
            *(Mlx5, {}),
            id="mlx5",
            marks=pytest.mark.support(
                "NIC driver", "mlx5", "modelled", "the port in a pod, mode move; rules cited: 26"
            ),
        ),
        pytest.param(
            *(Bnxt, {}),
            id="bnxt",
            marks=pytest.mark.support(
                "NIC driver", "bnxt_en", "modelled", "the port in a pod, mode move; rules cited: 17"
            ),
        ),
        pytest.param(
            *(Igb, {}),
            id="igb",
            marks=pytest.mark.support("NIC driver", "igb", "modelled", "the port in a pod, mode move; rules cited: 8"),
        ),
    ],
)
def test_a_port_comes_back_from_a_pod_as_planned(rig: Rig, driver: type[Port], fields: dict[str, object]) -> None:
    with serve(rig, driver, **fields) as (place, hardware, runtime):
        before = read_state(place, hardware)
        pod = runtime.make_pod("pod")
        runtime.add(pod, "move")
        assert {"rail0", "rail1"} <= runtime.run(inside, pod).links.keys()
        assert [port.apps for port in hardware.ports] == [[], []]
        runtime.delete(pod, "move")
        runtime.end_pod(pod)
        assert list_differences(place) == []
        assert read_state(place, hardware) == before


def test_ice_keeps_the_map_in_hardware_that_the_kernel_no_longer_lists_after_a_pod(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """The driver holds the codepoints for mapped, and refuses to add or delete what the kernel's table lacks."""
    with serve(rig, Ice, firmware_agent=False) as (place, hardware, runtime):
        pod = runtime.make_pod("pod")
        runtime.add(pod, "move")
        runtime.delete(pod, "move")
        runtime.end_pod(pod)
        assert list_differences(place) == ["priorities of DSCPs on eth0", "priorities of DSCPs on eth1"]
        for port in hardware.ports:
            assert isinstance(port, Ice)
            assert (port.classes_of[26], port.ets.classes[3], port.paused) == (3, 3, frozenset({3}))
    assert "priority 3 of DSCP 26 is not restored on eth0" in caplog.text


def test_a_pod_is_told_that_its_rdma_device_cannot_move(rig: Rig) -> None:
    with serve(rig, Bnxt, can_release_users=False) as (place, hardware, runtime):
        before = read_state(place, hardware)
        pod = runtime.make_pod("pod")
        with pytest.raises(CniError) as refusal:
            runtime.add(pod, "sriov")
        assert "RDMA" in str(refusal.value)
        assert "not supported" in str(refusal.value)
        assert read_state(place, hardware)[:2] == before[:2]
