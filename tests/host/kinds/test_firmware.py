from collections.abc import Sequence
from dataclasses import replace as on

import pytest

from tests.host.places import Host
from tests.host.steps.fabrics import P2P, node_plan
from tests.host.trees import Scripted, grow, with_programs
from trackbed.host.change import Change
from trackbed.host.kinds import module
from trackbed.host.kinds.firmware import Value, parse_values
from trackbed.host.runner import Ran
from trackbed.host.setting import Setting
from trackbed.host.steps import list_settings
from trackbed.host.transaction.apply import apply
from trackbed.host.transaction.compare import compare

PORTS = '[{pci: "0000:18:00.0", netdev: eth0}, null]'
EXTENDED = """
Device #1:
----------

Device type:        ConnectX7
Name:               MCX75310AAS-NEA_Ax
Device:             0000:18:00.0

Configurations:                                          Default             Current             Next Boot
        MEMIC_BAR_SIZE                              0                    0                    0
*       NUM_OF_VFS                                  0                    {now}                {next}
        SRIOV_EN                                    False(0)             True(1)              True(1)
RO      HOST_CHAINING_DESCRIPTORS                   Array[0..7]          Array[0..7]          Array[0..7]
        LINK_TYPE_P1                                IB(1)                {link}               {link}
The '*' shows parameters with next value different from default/current value.
"""
PLAIN = """
Device type:    ConnectX5
Configurations:                              Next Boot
         NUM_OF_VFS                          8
         SRIOV_EN                            True(1)
"""


def wanted() -> tuple[Setting, ...]:
    node = node_plan(P2P, PORTS, more="  vfs: {count: 8}\n  names: {netdev: keep}\n")
    return list_settings(node._replace(nic="15b3:1021"), {"firmware"})


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        pytest.param(EXTENDED.format(now=8, next=16, link="ETH(2)"), "NUM_OF_VFS", Value("8", "16"), id="a number"),
        pytest.param(EXTENDED.format(now=8, next=16, link="ETH(2)"), "LINK_TYPE_P1", Value("2", "2"), id="a word"),
        pytest.param(PLAIN, "SRIOV_EN", Value(None, "1"), id="only the next boot is shown"),
        pytest.param("-E- Failed to open the device", "SRIOV_EN", None, id="an error"),
    ],
)
def test_what_mlxconfig_shows_is_read(text: str, name: str, value: Value | None) -> None:
    assert parse_values(text).get(name) == value


@pytest.mark.parametrize(
    ("answer", "told", "reboot", "advice"),
    [
        pytest.param(
            {"now": 4, "next": 4, "link": "IB(1)"},
            ("NUM_OF_VFS=4 LINK_TYPE_P1=1", "NUM_OF_VFS=8 LINK_TYPE_P1=2"),
            False,
            "mlxconfig -y -d 0000:18:00.0 set NUM_OF_VFS=8 LINK_TYPE_P1=2",
            id="to be set",
        ),
        pytest.param(
            {"now": 4, "next": 16, "link": "ETH(2)"},
            ("NUM_OF_VFS=4", "NUM_OF_VFS=16"),
            True,
            "mlxfwreset -d 0000:18:00.0 reset",
            id="set for the next reset",
        ),
    ],
)
def test_firmware_that_is_not_as_planned_is_told_with_the_command(
    place: Host, answer: dict[str, object], told: tuple[str, str], advice: str, *, reboot: bool
) -> None:
    change = _found(place, EXTENDED.format(**answer))[0]
    assert ((change.have, change.want), change.reboot, change.do) == (told, reboot, ())
    assert advice in change.advice


def _found(place: Host, output: str) -> tuple[Change, ...]:
    """What differs on a host whose mlxconfig says this."""

    class Answers(Scripted):
        def run(self, argv: Sequence[str]) -> Ran:
            assert tuple(argv) == ("mlxconfig", "-d", "0000:18:00.0", "-e", "q")
            return Ran(0, output)

    return compare(on(place.machine, runner=Answers({"mlxconfig": lambda _: None})), wanted()).changes


def test_an_apply_asks_each_nic_once_and_tells_what_is_left(place: Host) -> None:
    asked = []

    class Answers(Scripted):
        def run(self, argv: Sequence[str]) -> Ran:
            asked.append(argv)
            return Ran(0, EXTENDED.format(now=4, next=4, link="ETH(2)"))

    machine = on(place.machine, runner=Answers({"mlxconfig": lambda _: None}))
    node = node_plan(P2P, PORTS, more="  vfs: {count: 8}\n  names: {netdev: keep}\n")._replace(nic="15b3:1021")
    done = apply(machine, list_settings(node, {"firmware", "addresses"}), place.records)
    assert [change.subject for change in done.left.changes] == ["firmware of eth0"]
    assert (len(asked), bool(done.changes)) == (1, True)


def test_firmware_that_offers_more_is_as_good(place: Host) -> None:
    assert _found(place, EXTENDED.format(now=16, next=16, link="ETH(2)")) == ()


def test_without_mlxconfig_nothing_is_known(place: Host) -> None:
    (skipped,) = compare(place.machine, wanted()).skipped
    assert skipped.reason == "neither mlxconfig nor mstconfig is here to ask the NIC"


def test_a_nic_that_does_not_answer_is_unknown_in_its_own_words(place: Host) -> None:
    host, _ = with_programs(place, mstconfig=lambda _: "-E- Failed to open the device")
    (skipped,) = compare(host.machine, wanted()).skipped
    assert skipped.reason == "mstconfig does not answer for 0000:18:00.0: -E- Failed to open the device"


def test_a_module_that_is_not_loaded_is_told(place: Host) -> None:
    node = node_plan(P2P, PORTS)._replace(nic="15b3:1021")
    grow(place.machine.root, {"/sys/module/mlx5_core/refcnt": "1\n", "/sys/module/ib_uverbs/refcnt": "1\n"})
    (change,) = compare(place.machine, list_settings(node, {"drivers"})).changes
    assert (change.subject, change.advice.partition(";")[0]) == ("kernel module mlx5_ib", "modprobe mlx5_ib")


@pytest.mark.parametrize(
    ("nic", "modules"),
    [
        pytest.param(None, [], id="not named"),
        pytest.param("14e4:1760", ["bnxt_en", "bnxt_re", "ib_uverbs"], id="Broadcom"),
        pytest.param("1dd8:1002", [], id="a vendor whose modules are not known"),
    ],
)
def test_modules_are_wanted_by_the_nics_vendor(nic: str | None, modules: list[str]) -> None:
    wants = [one.want for one in list_settings(node_plan(P2P, PORTS)._replace(nic=nic), {"drivers"})]
    assert [want.name for want in wants if isinstance(want, module.Want)] == modules
