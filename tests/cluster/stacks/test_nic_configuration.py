"""nic-configuration: one template for each kind of node, with the plan's QoS and names; and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.stacks.carried import carried, of_kind, refused
from tests.cluster.stacks.sites import INFINIBAND, POINT_TO_POINT, VFS, alike, unlike
from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.nic_configuration import STACK
from trackbed.fabric.plan.plan import Plan

SITE: dict[str, Any] = {"addressing": POINT_TO_POINT, **VFS}


def template(plan: Plan) -> dict[str, Any]:
    (found,) = of_kind(STACK, plan, "NicConfigurationTemplate").values()
    spec: dict[str, Any] = found["spec"]
    return spec


@pytest.mark.parametrize(
    ("qos", "wanted"),
    [
        pytest.param({}, {"pfc": "0,0,0,1,0,0,0,0", "tos": 104, "ecn": {"enabled": True, "priority": 3}}, id="default"),
        pytest.param(
            {"dscp": 24, "priority": 5},
            {"pfc": "0,0,0,0,0,1,0,0", "tos": 96, "ecn": {"enabled": True, "priority": 5}},
            id="another class",
        ),
        pytest.param({"ecn": False}, {"pfc": "0,0,0,1,0,0,0,0", "tos": 104}, id="no ECN"),
    ],
)
def test_qos_is_the_plans(qos: dict[str, Any], wanted: dict[str, Any]) -> None:
    found = template(carried(**SITE, qos=qos))["template"]["roceOptimized"]["qos"]
    assert found == {"trust": "dscp", "pauseFrames": {"enabled": False}} | wanted


def test_without_pfc_no_priority_is_paused_and_pause_frames_are_left_as_they_are() -> None:
    found = template(carried(**SITE, qos={"pfc": False}))["template"]["roceOptimized"]["qos"]
    assert found["pfc"] == "0,0,0,0,0,0,0,0"
    assert "pauseFrames" not in found


def test_ports_are_selected_by_device_id_and_address_so_that_other_nics_keep_their_settings() -> None:
    found = template(carried(**SITE))
    assert found["nicSelector"] == {"nicType": "1021", "pciAddresses": ["0000:18:00.0", "0000:20:00.0"]}
    assert found["template"]["numVfs"] == 8
    named = [{"hosts": "gpu-[0-1]", "nic": "15b3:1021"}]
    assert template(carried(nodes=named, **SITE))["nicSelector"] == {"nicType": "1021"}


def test_infiniband_has_a_link_type_and_no_roce() -> None:
    found = template(carried(**SITE | {"addressing": {"scheme": "none"}}, **INFINIBAND))["template"]
    assert found["linkType"] == "Infiniband"
    assert "roceOptimized" not in found


def test_unlike_nodes_have_templates_of_their_own() -> None:
    plan = carried(rails=8, nodes=unlike(), **SITE)
    for kind in ("NicConfigurationTemplate", "NicInterfaceNameTemplate"):
        found = of_kind(STACK, plan, kind)
        assert list(found) == ["train-g0", "train-g1"]
        groups = [one["spec"]["nodeSelector"]["trackbed.dev/group"] for one in found.values()]
        assert groups == ["0", "1"]
    types = [one["spec"]["nicSelector"]["nicType"] for one in of_kind(STACK, plan, "NicConfigurationTemplate").values()]
    assert types == ["1021", "a2dc"]


def test_names_are_prefix_and_rail_and_addresses_stand_in_rail_order() -> None:
    plan = carried(**SITE, names={"netdev": "net{rail}", "rdma": "mlx_r{rail}"})
    (found,) = of_kind(STACK, plan, "NicInterfaceNameTemplate").values()
    assert found["spec"]["netDevicePrefix"] == "net%rail_id%"
    assert found["spec"]["rdmaDevicePrefix"] == "mlx_r%rail_id%"
    assert found["spec"]["railPciAddresses"] == [["0000:18:00.0"], ["0000:20:00.0"]]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"names": {"netdev": "rail{number}"}}, id="counted from 1"),
        pytest.param({"names": {"netdev": "r{rail}x"}}, id="something after the rail"),
        pytest.param({"nodes": [{"hosts": "gpu-0", "nic": "15b3:1021"}]}, id="no addresses"),
        pytest.param({"nodes": [alike(1, 2)[0] | {"ports": ["0000:18:00.0", None]}]}, id="a rail without port"),
    ],
)
def test_names_that_the_operator_cannot_make_are_left_to_the_hosts(spec: dict[str, Any]) -> None:
    assert of_kind(STACK, carried(**SITE | spec), "NicInterfaceNameTemplate") == {}


def test_it_attaches_nothing() -> None:
    assert STACK.access(carried(**SITE)) == Access()
    assert STACK.title.startswith("Complement")


def test_nodes_are_configured_one_at_a_time_by_one_maintenance_configuration() -> None:
    plan = carried(**SITE)
    (found,) = of_kind(STACK, plan, "MaintenanceOperatorConfig").values()
    assert (found["metadata"]["name"], found["spec"]) == ("default", {"maxParallelOperations": 1, "maxUnavailable": 1})
    values = STACK.charts(plan)[0].values
    assert values["maintenanceOperator"] == {"enabled": True}
    assert values["maintenance-operator-chart"]["operatorConfig"] == {"deploy": False}


@pytest.mark.parametrize(
    ("nic", "message"),
    [
        pytest.param(
            None,
            "stack-needs-nic: the operator selects NICs by their device id, and the Fabric gives none for node gpu-0: "
            "write nic in its group, for example 15b3:1021 (lspci -nn)",
            id="no device id",
        ),
        pytest.param(
            "14e4:1760",
            "stack-nic-vendor: the operator configures NVIDIA NICs (15b3), node gpu-0 has 14e4:1760: leave this stack "
            "out",
            id="another vendor",
        ),
    ],
)
def test_what_it_cannot_do_is_refused(nic: str | None, message: str) -> None:
    assert refused(STACK, carried(nodes=[alike(1, 2)[0] | {"nic": nic}], **SITE)) == [message]
