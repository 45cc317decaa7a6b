"""Each fault of the names, put into a sound host, is what doctor names first."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from tests.doctor.host.changing import Fault, change_host, change_port, combine, limit_steps
from tests.doctor.host.sound_names import (
    CLOUD_INIT,
    CLOUD_INIT_FILE,
    LINK,
    LINK_FILE,
    NMCLI,
    RULE,
    RULE_FILE,
    build_view,
    compute_names_plan,
    get_rdma_name,
)
from tests.doctor.sound import build_link
from trackbed.doctor.catalogue import load_catalogue
from trackbed.doctor.checks import run_checks
from trackbed.doctor.diagnosis import diagnose_nodes
from trackbed.doctor.view import NodeView
from trackbed.host.runner import ProgramResult
from trackbed.host.transaction import netplan_entries

PLAN = compute_names_plan()
NODE = PLAN.nodes[0]
check_names = partial(run_checks, steps=("names",))
OTHER = "b8:ce:f6:00:00:77"


def exchange_names(view: NodeView) -> NodeView:
    """Exchange the hardware of rail0 and rail1."""
    names_of = {"rail0": "rail1", "rail1": "rail0"}
    links = tuple(link._replace(name=names_of.get(link.name, link.name)) for link in view.state.links)
    return replace(view, state=replace(view.state, links=links))


def add_interface(name: str, kind: str = "", altnames: tuple[str, ...] = ()) -> Fault:
    """Add an interface."""

    def change(view: NodeView) -> NodeView:
        extra = build_link(70, name, "02:00:00:00:00:70")._replace(kind=kind, altnames=altnames)
        return replace(view, state=replace(view.state, links=(*view.state.links, extra)))

    return change


def set_planned_mac(mac: str) -> Fault:
    """Set the port's MAC address in the plan."""

    def change(view: NodeView) -> NodeView:
        ports = tuple(port._replace(mac=mac) if port.rail == 1 else port for port in view.node.ports)
        return replace(view, node=view.node._replace(ports=ports))

    return change


def rename_rdma_devices(name: str | None) -> Fault:
    return change_host(folders={"/sys/class/net/rail1/device/infiniband": (name,) if name else ()})


NETPLAN = "/etc/netplan/01-rails.yaml"
SET_NAME = """network: {version: 2, ethernets: {
  r1: {match: {macaddress: "b8:ce:f6:00:00:01"}, set-name: rail1}}}"""
OVERRIDE = "network: {ethernets: {r1: {set-name: rail1}}}"
IN_CLOUD_INIT = CLOUD_INIT_FILE.replace("eno1", "rail1")
SHIFTED = change_host(
    links={
        "/sys/class/net/rail0/device": "../../../0000:3b:00.0",
        "/sys/class/net/rail1/device": "../../../0000:18:00.0",
    }
)

FAULTS: list[tuple[str, Fault]] = [
    ("names-netdev-missing", change_port(name="enp59s0np0")),
    ("names-netdev-missing", change_port(name="mgmt9", parent_device="0000:99:00.0")),
    ("names-on-wrong-device", exchange_names),
    ("names-rename-conflict", change_port(name="rename11")),
    ("names-rename-conflict", combine(change_port(name="eth5"), add_interface("rail1", "dummy"))),
    ("names-rename-conflict", combine(change_port(name="eth5"), add_interface("eth6", altnames=("rail1",)))),
    ("names-two-naming-sources", change_host({RULE: RULE_FILE})),
    ("names-two-naming-sources", change_host({NETPLAN: SET_NAME})),
    ("names-card-swapped", set_planned_mac(OTHER)),
    ("names-rdma-device-unexpected", rename_rdma_devices("rocep59s0")),
    ("names-cloud-init-rewrites-network", change_host({CLOUD_INIT: IN_CLOUD_INIT})),
    (
        "names-networkmanager-manages-rails",
        change_host(outputs={NMCLI: ProgramResult(0, "eno1:connected\nrail1:connected\nlo:unmanaged\n")}),
    ),
]


@pytest.fixture(autouse=True)
def limit_to_near_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_steps(monkeypatch)


def test_a_sound_host_has_no_finding_but_pass() -> None:
    findings = [finding for finding in check_names(build_view(NODE)) if finding.verdict != "pass"]
    assert findings == []
    assert diagnose_nodes([build_view(NODE)]).exit_status == 0


@pytest.mark.parametrize(("fault", "change"), FAULTS, ids=[f"{n}-{fault}" for n, (fault, _) in enumerate(FAULTS)])
def test_a_fault_is_named_first(fault: str, change: Fault) -> None:
    first = diagnose_nodes([change(build_view(NODE))]).first
    assert first is not None
    assert first.id == fault
    assert first.evidence


def test_every_fault_of_the_step_that_a_host_can_have_is_made_here() -> None:
    elsewhere = {"names-too-long", "names-rail-order-differs"}
    made = {fault for fault, _ in FAULTS} | elsewhere
    assert made == {fault.id for fault in load_catalogue().values() if fault.step == "names"}


def test_an_entry_of_cloud_init_that_trackbed_overrides_configures_no_port() -> None:
    override = "network: {ethernets: {rail1: {set-name: rail1}}}"
    view = change_host({CLOUD_INIT: IN_CLOUD_INIT, netplan_entries.FILE: override})(build_view(NODE))
    verdicts = {f.verdict for f in check_names(view) if f.id == "names-cloud-init-rewrites-network"}
    assert verdicts == {"pass"}


@pytest.mark.parametrize(
    "change",
    [
        change_host({RULE: RULE_FILE, LINK: None}),
        change_host({RULE: f"#{RULE_FILE.splitlines()[1]}\n"}),
        change_host({"/run/systemd/network/10-netplan-rail1.link": LINK_FILE}),
        change_host({LINK: "[Match\n", RULE: RULE_FILE}),
        change_host(
            {"/etc/udev/rules.d/59-rdma.rules": 'SUBSYSTEM=="infiniband", KERNELS=="0000:3b:00.0", NAME="x"\n'}
        ),
        change_host({NETPLAN: "network: [}"}),
        change_host({NETPLAN: "network: {ethernets: {rail1: {mtu: 9000}}}"}),
        change_host({NETPLAN: SET_NAME.replace("set-name: rail1", "set-name: enp5s0"), netplan_entries.FILE: OVERRIDE}),
        change_host({"/run/udev/rules.d/99-netplan-r1.rules": RULE_FILE}),
    ],
    ids=[
        "rule-alone",
        "comment",
        "netplans-own",
        "broken-link-file",
        "rdma-rule",
        "broken-netplan",
        "no-set-name",
        "override",
        "made",
    ],
)
def test_one_source_of_names_is_no_fault(change: Fault) -> None:
    findings = {
        finding.verdict for finding in check_names(change(build_view(NODE))) if finding.id == "names-two-naming-sources"
    }
    assert findings <= {"pass"}


def test_what_cloud_init_says_does_not_count_where_it_is_turned_off() -> None:
    off = {"/etc/cloud/cloud.cfg.d/99-disable.cfg": "network: {config: disabled}\n"}
    findings = list(check_names(change_host({CLOUD_INIT: IN_CLOUD_INIT, **off})(build_view(NODE))))
    assert {finding.verdict for finding in findings if finding.id.startswith("names-cloud-init")} == {"pass"}


def test_a_longer_name_in_cloud_inits_file_is_not_the_port() -> None:
    longer = CLOUD_INIT_FILE.replace("eno1", "rail10")
    findings = list(check_names(change_host({CLOUD_INIT: longer})(build_view(NODE))))
    assert {finding.verdict for finding in findings if finding.id.startswith("names-cloud-init")} == {"pass"}


def test_networkmanager_may_have_ports_that_trackbed_gave_it() -> None:
    ours = {"/etc/NetworkManager/system-connections": ("trackbed-rail0.nmconnection", "trackbed-rail1.nmconnection")}
    change = change_host(folders=ours, outputs={NMCLI: ProgramResult(0, "rail0:connected\nrail1:connected\n")})
    assert {finding.verdict for finding in check_names(change(build_view(NODE))) if "networkmanager" in finding.id} == {
        "pass"
    }


def test_networkmanager_that_does_not_run_manages_nothing() -> None:
    stopped = ProgramResult(8, "Error: NetworkManager is not running.")
    findings = list(check_names(change_host(outputs={NMCLI: stopped})(build_view(NODE))))
    assert not [finding for finding in findings if "networkmanager" in finding.id]


def test_a_port_that_a_virtual_machine_has_is_unknown() -> None:
    away = combine(
        change_port(name="mgmt9", parent_device="0000:99:00.0"),
        change_host(links={"/sys/bus/pci/devices/0000:3b:00.0/driver": "../../../../bus/pci/drivers/vfio-pci"}),
    )
    verdicts = {
        finding.verdict
        for finding in check_names(away(build_view(NODE)))
        if (finding.id, finding.rail) == ("names-netdev-missing", 1)
    }
    assert verdicts == {"unknown"}


def test_the_odd_one_of_three_nodes_is_told_where_it_differs() -> None:
    views = [build_view(node) for node in PLAN.nodes]
    (odd,) = [
        finding
        for finding in diagnose_nodes([views[0], SHIFTED(views[1]), views[2]]).findings
        if finding.id == "names-rail-order-differs"
    ]
    assert (odd.verdict, odd.node, [str(end) for end in odd.ends]) == ("fail", "n1", ["n1", "n0"])
    rdma = get_rdma_name(NODE, 0)
    assert f"rail 0: {rdma}, port 1 by PCI, on n0 {rdma}, port 0 by PCI" in odd.evidence


def test_a_representor_does_not_take_the_place_of_its_port() -> None:
    def change(view: NodeView) -> NodeView:
        representor = build_link(5, "rail1_0", "02:00:00:00:00:70")._replace(kind="", parent_device="0000:3b:00.0")
        return replace(view, state=replace(view.state, links=(representor, *view.state.links)))

    assert [finding.id for finding in check_names(change(build_view(NODE))) if finding.verdict != "pass"] == []
