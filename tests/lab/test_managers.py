"""Emulated servers with each network manager: what was planned holds after a reboot, and undo gives back what was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from trackbed_lab.cli.vm import command
from trackbed_lab.vm import doctor
from trackbed_lab.vm.managers import MANAGERS

from tests.lab.servers import USUAL

pytestmark = pytest.mark.timeout(7000)


@pytest.mark.slow
@pytest.mark.nightly("emulated servers take minutes for each manager")
@pytest.mark.support("network manager", "netplan", "ran", "emulated servers, MAAS's match and set-name, real reboots")
@pytest.mark.support("network manager", "networkd", "ran", "emulated servers, real reboots, undo")
@pytest.mark.support("network manager", "NetworkManager", "ran", "emulated servers, real reboots, undo")
@pytest.mark.support("network manager", "ifupdown", "ran", "emulated servers, real reboots, undo")
@pytest.mark.parametrize("manager", MANAGERS)
def test_names_addresses_and_rules_hold_after_a_reboot_and_undo_gives_back_what_was(
    tmp_path: Path, manager: str
) -> None:
    missing = [f"{item.name}: {item.evidence}; {item.todo}" for item in doctor.check_machine(2 * 1024) if not item.ok]
    if missing:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"no emulated servers here: {'; '.join(missing)}")
    (tmp_path / "fabric.yaml").write_text(USUAL)
    folder = ("--dir", str(tmp_path / "vm"))
    words = ("run", *folder, "--memory", "1024", "-f", str(tmp_path / "fabric.yaml"), "--manager", manager)
    done = CliRunner().invoke(command, words)
    assert done.exit_code == 0, done.output
    assert "back" in done.output


@pytest.mark.parametrize("manager", MANAGERS)
def test_a_server_is_born_with_its_manager_and_the_management_port_in_it(manager: str) -> None:
    files = MANAGERS[manager].render_files(1, 2)
    assert any("mgmt0" in text and "10.0.2.15" in text for text in files.values())
    if manager == "netplan":
        (text,) = files.values()
        assert text.count("set-name: ") == text.count("macaddress: ") == 3
        assert "02:54:42:01:01:00" in text
