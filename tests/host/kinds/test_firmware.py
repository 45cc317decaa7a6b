from collections.abc import Sequence
from dataclasses import replace as on

import pytest

from tests.host.places import MACS, Host
from tests.host.steps.fabrics import P2P, node_plan
from tests.host.trees import Scripted, grow, with_programs
from trackbed.host.change import Change
from trackbed.host.kinds.firmware import Value, Want, parse_values
from trackbed.host.runner import ProgramResult
from trackbed.host.setting import Setting
from trackbed.host.steps import iter_settings
from trackbed.host.transaction.apply import apply, undo
from trackbed.host.transaction.compare import compare
from trackbed.kernel.netlink.links import VethEnd, build_create_veth, build_delete_link

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
    node = node_plan(P2P, PORTS, spec="  vfs: {count: 8}\n  names: {netdev: keep}\n")
    return iter_settings(node._replace(nic="15b3:1021"), {"firmware"})


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
    ("answer", "outcome", "reboot", "advice"),
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
            "mlxfwreset -y -d 0000:18:00.0 reset",
            id="set for the next reset",
        ),
    ],
)
def test_firmware_that_is_not_as_planned_is_told_with_the_command(
    place: Host, answer: dict[str, object], outcome: tuple[str, str], advice: str, *, reboot: bool
) -> None:
    change = _found(place, EXTENDED.format(**answer))[0]
    assert ((change.have, change.want), change.reboot, change.operations) == (outcome, reboot, ())
    assert advice in change.advice


def _found(place: Host, output: str) -> tuple[Change, ...]:
    """What differs on a host whose mlxconfig says this."""

    class Answers(Scripted):
        def run(self, argv: Sequence[str]) -> ProgramResult:
            assert tuple(argv) == ("mlxconfig", "-d", "0000:18:00.0", "-e", "q")
            return ProgramResult(0, output)

    return compare(on(place.machine, runner=Answers({"mlxconfig": lambda _: None})), wanted()).changes


def test_an_apply_asks_each_nic_once_and_tells_what_is_left(place: Host) -> None:
    calls = []

    class Answers(Scripted):
        def run(self, argv: Sequence[str]) -> ProgramResult:
            calls.append(argv)
            return ProgramResult(0, EXTENDED.format(now=4, next=4, link="ETH(2)"))

    machine = on(place.machine, runner=Answers({"mlxconfig": lambda _: None}))
    node = node_plan(P2P, PORTS, spec="  vfs: {count: 8}\n  names: {netdev: keep}\n")._replace(nic="15b3:1021")
    done = apply(machine, iter_settings(node, {"firmware", "addresses"}), place.records)
    assert [change.subject for change in done.remaining.changes] == ["firmware of eth0"]
    assert (len(calls), bool(done.changes)) == (1, True)


def test_firmware_that_offers_more_is_as_good(place: Host) -> None:
    assert _found(place, EXTENDED.format(now=16, next=16, link="ETH(2)")) == ()


def test_firmware_is_read_by_pci_address_while_the_port_has_no_interface(place: Host) -> None:
    place.send(build_delete_link(place.index("eth0")))
    (change,) = _found(place, EXTENDED.format(now=8, next=8, link="IB(1)"))
    assert (change.subject, change.have, change.want) == ("firmware of eth0", "LINK_TYPE_P1=1", "LINK_TYPE_P1=2")


def test_without_mlxconfig_nothing_is_known(place: Host) -> None:
    (skipped,) = compare(place.machine, wanted()).skipped
    assert skipped.reason == "neither mlxconfig nor mstconfig is here to ask the NIC"


def test_a_nic_that_does_not_answer_is_unknown_in_its_own_words(place: Host) -> None:
    host, _ = with_programs(place, mstconfig=lambda _: "-E- Failed to open the device")
    (skipped,) = compare(host.machine, wanted()).skipped
    assert skipped.reason == "mstconfig does not answer for 0000:18:00.0: -E- Failed to open the device"


LOCKED = "-E- Failed to open device 0000:18:00.0. Operation not permitted"


def locked_host(place: Host, total_vfs: int, link_type: int) -> Host:
    """A host whose kernel is in lockdown, so that mstconfig cannot open the NIC."""
    folder = "/sys/bus/pci/devices/0000:18:00.0"
    grow(place.machine.root, {f"{folder}/sriov_totalvfs": f"{total_vfs}\n"})
    grow(place.machine.root, {f"{folder}/net/eth0/type": f"{link_type}\n"})
    return with_programs(place, mstconfig=lambda _: LOCKED)[0]


@pytest.mark.parametrize(
    ("total_vfs", "link_type", "have", "want"),
    [
        pytest.param(0, 1, "SRIOV_EN=0 NUM_OF_VFS=0", "SRIOV_EN=1 NUM_OF_VFS=8", id="no VFs"),
        pytest.param(4, 1, "NUM_OF_VFS=4", "NUM_OF_VFS=8", id="too few VFs"),
        pytest.param(16, 32, "LINK_TYPE_P1=1", "LINK_TYPE_P1=2", id="the other link layer"),
    ],
)
def test_where_lockdown_hides_the_flash_its_effects_are_compared(
    place: Host, total_vfs: int, link_type: int, have: str, want: str
) -> None:
    (change,) = compare(locked_host(place, total_vfs, link_type).machine, wanted()).changes
    assert (change.have, change.want, change.operations) == (have, want, ())
    assert change.advice.startswith(f"mstconfig does not answer for 0000:18:00.0: {LOCKED}; set ")


def test_where_lockdown_hides_the_flash_the_planned_effects_are_as_planned(place: Host) -> None:
    comparison = compare(locked_host(place, total_vfs=64, link_type=1).machine, wanted())
    assert (comparison.changes, comparison.skipped) == ((), ())


class Nic:
    """mstconfig and mstfwreset of one NIC: `set` changes the next boot, a reset makes it current.

    A double, because mstconfig opens a NIC's registers; its output is that of printSingleParam in
    mlxconfig/mlxcfg_ui.cpp (mstflint b9d9e844).
    """

    def __init__(self, place: Host, **values: str) -> None:
        self.now = {"NUM_OF_VFS": "0", "SRIOV_EN": "0", "LINK_TYPE_P1": "2"} | values
        self.next = dict(self.now)
        self.resets = 0
        programs = {"mstconfig": self.configure, "mstfwreset": self.reset, "udevadm": lambda _: None}
        self.runner = Answering(programs)
        self.host = Host(on(place.machine, runner=self.runner), place.far)

    def configure(self, argv: Sequence[str]) -> str | None:
        """Run mstconfig."""
        if argv[-1] == "q":
            return self.show()
        changes = dict(word.split("=") for word in argv[argv.index("set") + 1 :])
        assert changes.keys() <= self.next.keys()
        self.next |= changes
        return None

    def show(self) -> str:
        """Return the output of a query."""
        heading = f"{'Configurations:':<56}{'Default':<21}{'Current':<21}Next Boot\n"
        rows = (
            f"{'*' if self.next[name] != now else ' '}       {name:<48}{'0':<21}{now:<21}{self.next[name]}\n"
            for name, now in self.now.items()
        )
        return f"\nDevice #1:\n----------\n\n{heading}{''.join(rows)}"

    def reset(self, _: Sequence[str]) -> None:
        """Run mstfwreset, or reboot."""
        self.now = dict(self.next)
        self.resets += 1


class Answering(Scripted):
    """Programs whose returned text is their output, with status 0."""

    def run(self, argv: Sequence[str]) -> ProgramResult:
        """Run a program; queries are not noted."""
        if "q" not in argv:
            self.ran.append(" ".join(argv))
        return ProgramResult(0, self.programs[argv[0]](argv[1:]) or "")


def written(policy: str) -> tuple[Setting, ...]:
    spec = f"  vfs: {{count: 8}}\n  names: {{netdev: keep}}\n  firmware: {{parameters: {policy}}}\n"
    return iter_settings(node_plan(P2P, PORTS, spec=spec)._replace(nic="15b3:1021"), {"firmware"})


SET = "mstconfig -y -d 0000:18:00.0 set SRIOV_EN=1 NUM_OF_VFS=8"
RESET = "mstfwreset -y -d 0000:18:00.0 reset"


def test_parameters_are_written_for_the_next_reboot_where_the_fabric_says_so_and_undone(place: Host) -> None:
    nic = Nic(place)
    (change,) = compare(nic.host.machine, written("write")).changes
    assert (change.have, change.want, change.advice) == (
        "SRIOV_EN=0 NUM_OF_VFS=0",
        "SRIOV_EN=1 NUM_OF_VFS=8",
        f"apply runs: {SET}",
    )
    (left,) = apply(nic.host.machine, written("write"), nic.host.records).remaining.changes
    assert (left.reboot, nic.runner.ran) == (True, [SET])
    nic.reset(())
    assert compare(nic.host.machine, written("write")).changes == ()
    assert undo(nic.host.machine, nic.host.records) == ()
    assert nic.next == {"NUM_OF_VFS": "0", "SRIOV_EN": "0", "LINK_TYPE_P1": "2"}


def test_a_reset_makes_them_current_at_once_and_undo_resets_again(place: Host) -> None:
    nic = Nic(place)
    assert apply(nic.host.machine, written("reset"), nic.host.records).remaining.changes == ()
    assert (nic.runner.ran[:2], nic.now["NUM_OF_VFS"]) == ([SET, RESET], "8")
    assert undo(nic.host.machine, nic.host.records) == ()
    assert (nic.now["NUM_OF_VFS"], nic.resets) == ("0", 2)


def test_a_card_with_two_ports_is_reset_once() -> None:
    ports = '[{pci: "0000:18:00.0", netdev: eth0}, {pci: "0000:18:00.1", netdev: eth1}]'
    node = node_plan(P2P, ports, spec="  vfs: {count: 8}\n  firmware: {parameters: reset}\n")._replace(nic="15b3:1021")
    wants = [setting.want for setting in iter_settings(node, {"firmware"})]
    assert [want.is_reset for want in wants if isinstance(want, Want)] == [False, True]


def test_nothing_is_written_unless_the_fabric_says_so(place: Host) -> None:
    nic = Nic(place)
    (left,) = apply(nic.host.machine, written("leave"), nic.host.records).remaining.changes
    assert (left.operations, nic.runner.ran) == ((), [])
    assert left.advice.startswith(f"{SET}, then reset the firmware ({RESET}) or reboot")


def test_other_settings_wait_until_the_nic_is_back(place: Host) -> None:
    nic = Nic(place)

    def reset(argv: Sequence[str]) -> None:
        """Reset the NIC: its interface vanishes and comes back with another index."""
        nic.reset(argv)
        place.send(build_delete_link(place.index("eth0")))
        with place.far.open("rb") as far:
            place.send(build_create_veth(VethEnd("eth0", mac=MACS[0]), VethEnd("leaf9", far.fileno())))

    nic.runner.programs["mstfwreset"] = reset
    spec = "  vfs: {count: 8}\n  names: {netdev: keep}\n  firmware: {parameters: reset}\n"
    node = node_plan(P2P, PORTS, spec=spec)._replace(nic="15b3:1021")
    done = apply(nic.host.machine, iter_settings(node, {"firmware", "addresses"}), nic.host.records)
    assert [change.step for change in done.changes][:2] == ["firmware", "addresses"]
    assert (done.remaining.changes, nic.resets) == ((), 1)
