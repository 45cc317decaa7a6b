import os
from pathlib import Path

import pytest

from tests.host.places import PORTS, Host, everything
from tests.host.steps.fabrics import P2P, node_plan
from trackbed.host.formats import Format
from trackbed.host.machine import Machine
from trackbed.host.render import FORMATS
from trackbed.host.steps import iter_settings
from trackbed.host.transaction.apply import ApplyError, apply, undo
from trackbed.host.transaction.files import (
    list_differences,
    list_foreign_mentions,
    read_owned,
    write_file,
)

NODE = node_plan(P2P, PORTS)
MINE = "/etc/netplan/90-trackbed.yaml"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def put(machine: Machine, path: str, content: str) -> Path:
    place = machine.locate(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(content)
    return place


def written(machine: Machine, manager: Format) -> None:
    for change in list_differences(machine, FORMATS[manager](NODE)):
        write_file(machine, change.path, change.want)


@pytest.mark.parametrize("manager", FORMATS)
def test_every_rendered_file_is_found_again(machine: Machine, manager: Format) -> None:
    written(machine, manager)
    assert {path: content.decode() for path, content in read_owned(machine).items()} == FORMATS[manager](NODE)
    assert list_differences(machine, FORMATS[manager](NODE)) == ()


def test_another_format_replaces_the_files_of_the_first(machine: Machine) -> None:
    written(machine, "netplan")
    written(machine, "networkmanager")
    assert set(read_owned(machine)) == set(FORMATS["networkmanager"](NODE))


def test_folders_can_be_read_by_networkd_whatever_the_umask(machine: Machine) -> None:
    path = "/etc/systemd/network/10-netplan-rail0.network.d/90-trackbed.conf"
    former = os.umask(0o077)
    try:
        write_file(machine, path, b"[Match]\n")
    finally:
        os.umask(former)
    folders = [folder for folder in machine.locate(path).parents if folder.is_relative_to(machine.locate("/etc"))]
    assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o755}


def test_files_of_others_are_never_touched(machine: Machine) -> None:
    theirs = [
        put(machine, "/etc/netplan/50-cloud-init.yaml", "network: {}\n"),
        put(machine, "/etc/systemd/network/10-rail0.network", "[Match]\n"),
        put(machine, "/etc/sysctl.d/90-rails.conf", "a = 1\n"),
    ]
    before = [(place.read_text(), place.stat().st_mtime_ns) for place in theirs]
    for manager in FORMATS:
        written(machine, manager)
    assert [(place.read_text(), place.stat().st_mtime_ns) for place in theirs] == before


def test_a_file_with_secrets_is_for_root_only_and_leaves_no_scraps(machine: Machine) -> None:
    put(machine, MINE, "old").chmod(0o644)
    write_file(machine, MINE, b"new")
    place = machine.locate(MINE)
    assert (place.read_text(), place.stat().st_mode & 0o777) == ("new", 0o600)
    assert [path.name for path in place.parent.iterdir()] == ["90-trackbed.yaml"]


def test_a_file_for_all_can_be_read_by_all_whatever_the_umask(machine: Machine) -> None:
    path = "/etc/sysctl.d/90-trackbed.conf"
    mask = os.umask(0o077)
    try:
        write_file(machine, path, b"-a = 1\n")
    finally:
        os.umask(mask)
    assert machine.locate(path).stat().st_mode & 0o777 == 0o644


def test_other_files_that_speak_of_a_rail_are_named_with_their_line(machine: Machine) -> None:
    put(machine, "/etc/netplan/01-site.yaml", "network:\n  ethernets:\n    rail0: {mtu: 1500}\n    # rail1: no\n")
    put(machine, "/etc/udev/rules.d/70.rules", 'ATTR{address}=="b8:3f:d2:00:00:01", NAME="nic1"\n')
    put(machine, "/etc/systemd/network/20-x.network", "[Match]\nName=rail01\n")
    written(machine, "netplan")
    assert list_foreign_mentions(machine, frozenset({"rail0", "rail1", "b8:3f:d2:00:00:01"})) == (
        "/etc/netplan/01-site.yaml:3: rail0: {mtu: 1500}",
        '/etc/udev/rules.d/70.rules:1: ATTR{address}=="b8:3f:d2:00:00:01", NAME="nic1"',
    )


def test_an_apply_writes_its_files_and_undo_puts_the_old_ones_back(place: Host) -> None:
    put(place.machine, MINE, "from before\n")
    done = apply(place.machine, iter_settings(NODE), place.records, FORMATS["netplan"](NODE))
    assert {change.path for change in done.files} == set(FORMATS["netplan"](NODE))
    assert apply(place.machine, iter_settings(NODE), place.records, FORMATS["netplan"](NODE)).files == ()
    assert undo(place.machine, place.records) == ()
    assert read_owned(place.machine) == {MINE: b"from before\n"}


def test_a_file_that_cannot_be_written_undoes_the_live_settings_too(place: Host) -> None:
    put(place.machine, "/etc/systemd/network", "a file where a folder must be\n")
    before = everything(place.machine)
    with pytest.raises(ApplyError, match=r"cannot write /etc/systemd/network/.*: File exists; everything was put back"):
        apply(place.machine, iter_settings(NODE), place.records, FORMATS["networkd"](NODE))
    assert everything(place.machine) == before
    assert read_owned(place.machine) == {}
