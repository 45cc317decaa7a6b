"""Doctor against each driver's model: what it finds before an apply, and after it."""

from __future__ import annotations

import pytest

from tests.drivers.bnxt import Bnxt
from tests.drivers.conftest import Rig
from tests.drivers.ice import Ice
from tests.drivers.igb import Igb
from tests.drivers.mlx5 import Mlx5
from tests.drivers.place import NODE_NAME, apply_plan, furnish, whole_plan
from tests.drivers.port import Port
from tests.drivers.requests import create_vfs, set_vf
from tests.host.places import Host
from tests.host.trees import grow
from trackbed.doctor.checks import run_checks
from trackbed.doctor.inspection import InspectionTarget, inspect_node
from trackbed.doctor.probes import ProbeTimeouts


def diagnose(place: Host) -> dict[str, str]:
    """Return the verdict of each check of VFs and QoS that does not pass, by its code."""
    grow(place.machine.root, {"/proc/cmdline": "ro quiet\n"})
    plan = whole_plan()
    node = plan.find_node(NODE_NAME)
    assert node is not None
    view = inspect_node(InspectionTarget(place.machine, node), plan, ProbeTimeouts(0.01, 0.01))
    findings = list(run_checks(view, steps=("vfs", "qos")))
    return {finding.id: f"{finding.verdict}: {finding.evidence}" for finding in findings if finding.verdict != "pass"}


@pytest.mark.support("NIC driver", "mlx5", "modelled", "doctor; rules cited: 26")
def test_doctor_names_what_mlx5_lacks_and_is_content_after_apply(rig: Rig) -> None:
    place, _ = rig(Mlx5)
    place = furnish(place)
    create_vfs(place, 2)
    set_vf(place, spoof_check=True)
    before = diagnose(place)
    assert before["vfs-mac-zero"] == "fail: no MAC address: VF 0 (0000:1a:00.1), VF 1 (0000:1a:00.2)"
    assert before["vfs-node-guid-zero"].startswith("fail")
    apply_plan(place)
    assert diagnose(place) == {}


@pytest.mark.parametrize(
    ("driver", "fields"),
    [
        pytest.param(
            *(Bnxt, {}),
            id="bnxt",
            marks=pytest.mark.support("NIC driver", "bnxt_en", "modelled", "doctor; rules cited: 17"),
        ),
        pytest.param(
            *(Ice, {"firmware_agent": False}),
            id="ice",
            marks=pytest.mark.support("NIC driver", "ice/irdma", "modelled", "doctor; rules cited: 22"),
        ),
        pytest.param(
            *(Igb, {}),
            id="igb",
            marks=pytest.mark.support("NIC driver", "igb", "modelled", "doctor; rules cited: 8"),
        ),
    ],
)
def test_doctor_is_content_with_vfs_and_qos_after_apply(
    rig: Rig, driver: type[Port], fields: dict[str, object]
) -> None:
    place, _ = rig(driver, **fields)
    place = furnish(place)
    apply_plan(place)
    assert diagnose(place) == {}


FIRMWARE = {"qos-dcbx-firmware-managed", "qos-ets-shares-traffic-class", "qos-pfc-off", "qos-trust-not-dscp"}


@pytest.mark.parametrize(
    ("driver", "fields", "codes"),
    [
        pytest.param(Mlx5, {"dpu_mode": True}, {"vfs-spoofcheck-or-trust"}, id="mlx5 in DPU mode"),
        pytest.param(Bnxt, {"firmware_lldp": True}, FIRMWARE, id="bnxt, NVRAM"),
        pytest.param(Ice, {}, FIRMWARE, id="ice, firmware agent"),
    ],
)
def test_doctor_names_what_a_driver_refuses(
    rig: Rig, driver: type[Port], fields: dict[str, object], codes: set[str]
) -> None:
    place, _ = rig(driver, **fields)
    place = furnish(place)
    apply_plan(place)
    assert set(diagnose(place)) == codes
