"""The boot script against each driver's model: the same state as after apply, from what a reboot leaves."""

from __future__ import annotations

import errno
import re
import subprocess
from collections.abc import Mapping

import pytest

from tests.drivers.bnxt import Bnxt
from tests.drivers.conftest import Rig
from tests.drivers.ice import Ice
from tests.drivers.igb import Igb
from tests.drivers.mlx5 import Mlx5, Mlx5InfiniBand
from tests.drivers.place import furnish, read_interface_mac, read_state, settings
from tests.drivers.port import Port
from tests.drivers.programs import Programs
from trackbed.host.kinds import file
from trackbed.host.transaction.compare import compare
from trackbed.kernel.netlink.dcb import build_dscp_app
from trackbed.kernel.netlink.links import build_set_link

DSCPS = frozenset({build_dscp_app(26, 3), build_dscp_app(48, 6)})


class Boot:
    """A host after a reboot: the files of an apply are there, ports are up, nothing else is set."""

    def __init__(
        self, rig: Rig, driver: type[Port], fields: Mapping[str, object] | None = None, spec: str = ""
    ) -> None:
        place, self.hardware = rig(driver, **(fields or {}))
        self.place, self.spec = furnish(place), spec
        self.programs = Programs(self.hardware)
        self.folder = self.place.machine.root.parent / "bin"
        self.folder.mkdir()
        self.programs.install(self.folder, self.place.machine.root)

    def set_up(self) -> Boot:
        """Set the ports up, as the network's manager does."""
        self.place.send(*(build_set_link(self.place.index(name), up=True) for name in ("eth0", "eth1")))
        return self

    def run(self, *ports: str) -> subprocess.CompletedProcess[str]:
        """Run the script on the model's sysfs, with its programs."""
        wants = [setting.want for setting in settings(self.spec)]
        text = next(want.content for want in wants if isinstance(want, file.Want) and want.path == file.BOOT_SCRIPT)
        place = self.folder / "boot.sh"
        place.write_text(re.sub(r'([ =">])/sys/', rf"\1{self.place.machine.root}/sys/", text))
        path = {"PATH": f"{self.folder}:/usr/bin:/bin"}
        command = ["sh", str(place), *ports]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=path)

    def list_differences(self) -> list[str]:
        """Return what of VFs and QoS is not as planned."""
        changes = compare(self.place.machine, settings(self.spec)).changes
        return [change.subject for change in changes if change.step in {"vfs", "qos"} and "file" not in change.subject]


@pytest.mark.parametrize(
    ("driver", "fields"),
    [
        pytest.param(
            *(Mlx5, {}),
            id="mlx5",
            marks=pytest.mark.support("NIC driver", "mlx5", "modelled", "boot script; rules cited: 26"),
        ),
        pytest.param(Mlx5, {"cap": 0x0C}, id="mlx5, firmware negotiates"),
        pytest.param(
            *(Bnxt, {}),
            id="bnxt",
            marks=pytest.mark.support("NIC driver", "bnxt_en", "modelled", "boot script; rules cited: 17"),
        ),
        pytest.param(
            *(Ice, {"firmware_agent": False}),
            id="ice",
            marks=pytest.mark.support("NIC driver", "ice/irdma", "modelled", "boot script; rules cited: 22"),
        ),
        pytest.param(
            *(Igb, {}),
            id="igb",
            marks=pytest.mark.support("NIC driver", "igb", "modelled", "boot script; rules cited: 8"),
        ),
    ],
)
def test_after_the_boot_script_nothing_differs(rig: Rig, driver: type[Port], fields: dict[str, object]) -> None:
    boot = Boot(rig, driver, fields).set_up()
    ran = boot.run()
    assert ran.stderr == ""
    assert ran.returncode == 0
    assert boot.list_differences() == []
    assert boot.run().returncode == 0
    for rail, port in enumerate(boot.hardware.ports):
        for vf in port.vfs:
            assert port.passes(
                vf.number, bytes.fromhex(read_interface_mac(boot.place, rail, vf.number).replace(":", ""))
            )


def test_bnxt_whose_ports_are_still_down_gets_its_vfs_all_the_same(rig: Rig) -> None:
    boot = Boot(rig, Bnxt)
    ran = boot.run()
    assert ran.stderr == ""
    assert [len(port.vfs) for port in boot.hardware.ports] == [2, 2]


def test_a_count_that_a_driver_goes_on_ignoring_is_in_the_journal(rig: Rig) -> None:
    boot = Boot(rig, Bnxt)
    boot.hardware.ports[0].is_running = lambda: False
    ran = boot.run("eth0")
    assert ran.returncode == 1
    assert "0000:1a:00.0 has 0 VFs and not 2: its driver ignored the count; is its port up?" in ran.stderr


def test_a_dscp_that_a_driver_refuses_is_in_the_journal_though_dcb_succeeds(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    boot = Boot(rig, Mlx5).set_up()
    monkeypatch.setattr(boot.hardware.ports[0], "add_app", lambda app: -errno.EINVAL if app.protocol == 26 else 0)
    ran = boot.run("eth0")
    assert ran.returncode == 1
    assert "the driver of eth0 does not map DSCP 26 to priority 3" in ran.stderr


def test_infiniband_vfs_have_guids_and_a_link(rig: Rig) -> None:
    boot = Boot(rig, Mlx5InfiniBand, spec="  linkType: infiniband\n").set_up()
    ran = boot.run()
    assert ran.stderr == ""
    assert boot.list_differences() == []
    assert all(port.passes(vf.number, b"") for port in boot.hardware.ports for vf in port.vfs)


def test_a_port_whose_driver_was_loaded_again_is_as_planned_after_its_unit(rig: Rig) -> None:
    boot = Boot(rig, Mlx5).set_up()
    boot.run()
    port = boot.hardware.ports[0]
    assert isinstance(port, Mlx5)
    boot.hardware.reload(port)
    assert len(read_state(boot.place, boot.hardware)[0][0].apps) == 64
    assert boot.list_differences() != []
    assert boot.run("eth0").stderr == ""
    assert boot.list_differences() == []


@pytest.mark.parametrize(
    ("driver", "fields", "words"),
    [
        pytest.param(Mlx5, {"dpu_mode": True}, "RTNETLINK answers: Operation not permitted", id="mlx5 in DPU mode"),
        pytest.param(Bnxt, {"firmware_lldp": True}, "Attribute write: Invalid argument", id="bnxt, NVRAM"),
        pytest.param(Ice, {}, "Attribute write: Invalid argument", id="ice, firmware agent"),
    ],
)
def test_what_a_driver_refuses_is_in_the_journal_and_all_else_is_set(
    rig: Rig, driver: type[Port], fields: dict[str, object], words: str
) -> None:
    boot = Boot(rig, driver, fields).set_up()
    ran = boot.run()
    assert words in ran.stderr
    assert ran.returncode == 1
    for rail, port in enumerate(boot.hardware.ports):
        assert [vf.mac.hex(":") for vf in port.vfs] == [
            read_interface_mac(boot.place, rail, number) for number in (0, 1)
        ]
