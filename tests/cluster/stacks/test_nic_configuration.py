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
    (manifest,) = of_kind(STACK, plan, "NicConfigurationTemplate").values()
    spec: dict[str, Any] = manifest["spec"]
    return spec


@pytest.mark.parametrize(
    ("qos", "wanted"),
    [
        pytest.param({}, {"pfc": "0,0,0,1,0,0,0,0", "tos": 104}, id="default"),
        pytest.param({"dscp": 24, "priority": 5}, {"pfc": "0,0,0,0,0,1,0,0", "tos": 96}, id="another class"),
        pytest.param({"pfc": False}, {"pfc": "0,0,0,0,0,0,0,0", "tos": 104}, id="no PFC"),
    ],
)
def test_qos_is_the_plans_in_the_fields_that_the_released_operator_has(
    qos: dict[str, Any], wanted: dict[str, Any]
) -> None:
    roce = template(carried(**SITE, qos=qos))["template"]["roceOptimized"]
    assert roce == {"enabled": True, "qos": {"trust": "dscp"} | wanted}


def test_ports_are_selected_by_device_id_and_address_so_that_other_nics_keep_their_settings() -> None:
    fields = template(carried(**SITE))
    assert fields["nicSelector"] == {"nicType": "1021", "pciAddresses": ["0000:18:00.0", "0000:20:00.0"]}
    assert fields["template"]["numVfs"] == 8
    named = [{"hosts": "gpu-[0-1]", "nic": "15b3:1021"}]
    assert template(carried(nodes=named, **SITE))["nicSelector"] == {"nicType": "1021"}


def test_infiniband_has_a_link_type_and_no_roce() -> None:
    fields = template(carried(**SITE | {"addressing": {"scheme": "none"}}, **INFINIBAND))["template"]
    assert fields["linkType"] == "Infiniband"
    assert "roceOptimized" not in fields


def test_unlike_nodes_have_templates_of_their_own() -> None:
    plan = carried(rails=8, nodes=unlike(), **SITE)
    for kind in ("NicConfigurationTemplate", "NicInterfaceNameTemplate"):
        manifests = of_kind(STACK, plan, kind)
        assert list(manifests) == ["train-g0", "train-g1"]
        groups = [manifest["spec"]["nodeSelector"]["trackbed.dev/group"] for manifest in manifests.values()]
        assert groups == ["0", "1"]
    types = [
        manifest["spec"]["nicSelector"]["nicType"]
        for manifest in of_kind(STACK, plan, "NicConfigurationTemplate").values()
    ]
    assert types == ["1021", "a2dc"]


def test_names_are_prefix_and_rail_and_addresses_stand_in_rail_order() -> None:
    plan = carried(**SITE, names={"netdev": "net{rail}", "rdma": "mlx_r{rail}"})
    (manifest,) = of_kind(STACK, plan, "NicInterfaceNameTemplate").values()
    assert manifest["spec"]["netDevicePrefix"] == "net%rail_id%"
    assert manifest["spec"]["rdmaDevicePrefix"] == "mlx_r%rail_id%"
    assert manifest["spec"]["railPciAddresses"] == [["0000:18:00.0"], ["0000:20:00.0"]]


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
    (manifest,) = of_kind(STACK, plan, "MaintenanceOperatorConfig").values()
    assert (manifest["metadata"]["name"], manifest["spec"]) == (
        "default",
        {"maxParallelOperations": 1, "maxUnavailable": 1},
    )
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
