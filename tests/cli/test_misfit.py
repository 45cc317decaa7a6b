"""A Fabric that does not fit the host is refused with status 2, and its network stays byte for byte."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_host_commands import FABRIC, on
from tests.host.places import MACS, Host, host
from tests.waiting import wait_until
from trackbed.host.transaction.files import read_owned
from trackbed.host.transaction.record import load_record

pytestmark = pytest.mark.needs("root", "ip")

NETWORK = "ip -d addr; ip rule; ip -6 rule; ip route show table all; ip -6 route show table all"
PLANNED = FABRIC.replace("{scheme: point-to-point}", "{scheme: point-to-point, ipv4: 172.20.0.0/16}")
OTHER_SCHEME = FABRIC.replace("{scheme: point-to-point}", "{scheme: shared-subnet, ipv4: 10.0.0.0/16}")
MISFITS = {
    "all planned ports absent": (
        PLANNED.replace(MACS[0], "p0").replace(MACS[1], "p1"),
        "this host has none of the 2 planned ports (here: ",
    ),
    "one port absent, some lost": (
        OTHER_SCHEME.replace(MACS[1], "p1"),
        "this host lacks 1 of the 2 planned ports (p1), and ",
    ),
    "more than a third lost": (OTHER_SCHEME, "addresses, routes, rules and VFs would be removed. Is it the right"),
}


@pytest.fixture
def fabric(tmp_path: Path) -> Path:
    path = tmp_path / "fabric.yaml"
    path.write_text(PLANNED)
    return path


@pytest.fixture
def place(tmp_path: Path, fabric: Path) -> Iterator[Host]:
    with host(tmp_path) as made:
        assert on(made, "apply", str(fabric), "--yes").exit_code == 0
        wait_until(lambda: print_network(made).count(b"state UP") == 3, "the links are up")
        yield made


def print_network(place: Host) -> bytes:
    command = ["nsenter", f"--net={place.machine.netns}", "sh", "-c", NETWORK]
    return subprocess.run(command, check=True, capture_output=True, timeout=60).stdout


def show(place: Host) -> tuple[object, ...]:
    """What `ip` prints of the host's network, Trackbed's files, and its record for undo."""
    network = print_network(place)
    assert b"rail1" in network
    return network, read_owned(place.machine), load_record(place.records)


@pytest.mark.parametrize(("text", "reason"), MISFITS.values(), ids=MISFITS)
def test_a_fabric_that_does_not_fit_is_refused_and_everything_stays_byte_for_byte(
    place: Host, fabric: Path, text: str, reason: str
) -> None:
    fabric.write_text(text)
    before = show(place)
    refused = on(place, "apply", str(fabric), "--yes")
    assert refused.exit_code == 2
    assert reason in refused.stderr
    assert "nothing was changed" in refused.stderr
    assert show(place) == before


@pytest.mark.parametrize(
    "addressing",
    [
        "{scheme: point-to-point, ipv4: 172.20.0.0/16}",
        "{scheme: node-subnet, ipv4: 172.20.0.0/16}",
        "{scheme: shared-subnet, ipv4: 172.20.0.0/15, gateway: first}",
        "{scheme: shared-subnet, ipv4: 172.20.0.0/15}",
    ],
)
def test_the_plan_of_another_node_is_refused_with_each_scheme(tmp_path: Path, addressing: str) -> None:
    text = FABRIC.replace("{scheme: point-to-point}", addressing)
    fabric = tmp_path / "fabric.yaml"
    fabric.write_text(text)
    with host(tmp_path) as made:
        assert on(made, "apply", str(fabric), "--yes").exit_code == 0
        wait_until(lambda: print_network(made).count(b"state UP") == 3, "the links are up")
        before = show(made)
        fabric.write_text(text.replace("gpu-[0-1]", "gpu-[1-2]"))  # gpu-1 has the slot of gpu-0
        refused = on(made, "apply", str(fabric), "--yes")
        assert (refused.exit_code, "Is it the right Fabric and node?" in refused.stderr) == (2, True)
        assert show(made) == before


@pytest.mark.parametrize("text", [MISFITS["more than a third lost"][0], PLANNED], ids=["misfit", "fit"])
def test_another_number_of_removals_than_was_shown_is_refused(place: Host, fabric: Path, text: str) -> None:
    fabric.write_text(text)
    shown = json.loads(on(place, "diff", str(fabric), "-o", "json").stdout)["totals"]["remove"]
    before = show(place)
    for removals in {0, shown - 1, shown + 1} - {shown, -1}:
        refused = on(place, "apply", str(fabric), "--yes", "--removals", removals)
        assert refused.exit_code == 2
        assert f"{shown} entries would be removed, not {removals}; look at the differences again" in refused.stderr
        assert show(place) == before


def test_the_number_of_removals_that_was_shown_applies_a_misfit(place: Host, fabric: Path) -> None:
    fabric.write_text(OTHER_SCHEME)
    shown = json.loads(on(place, "diff", str(fabric), "-o", "json").stdout)["totals"]["remove"]
    assert on(place, "apply", str(fabric), "--yes", "--removals", shown).exit_code == 0
    assert on(place, "diff", str(fabric)).exit_code == 0
