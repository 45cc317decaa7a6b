"""What stands in the files of a planned host, file by file: exactly the intended commands, directives and keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import yaml

from tests.file_syntax import read_commands, read_ini, read_lines, read_udev
from trackbed.fabric.plan.node_document import decode_node
from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.steps.boot_script import TEXT

Check = Callable[[NodePlan, str, str], None]

_UNIT_KEYS = {
    "Unit": "Description BindsTo After Before Wants",
    "Service": "Type RemainAfterExit ExecStart LimitMEMLOCK",
}
_NETWORK_KEYS = {
    "Match": "Name Path PermanentMACAddress Property",
    "Link": "Name AlternativeNamesPolicy MTUBytes RequiredForOnline",
    "Network": "DHCP IPv6AcceptRA Address LinkLocalAddressing",
    "Route": "Type Destination Scope Gateway PreferredSource Table Protocol GatewayOnLink",
    "RoutingPolicyRule": "Priority From To InvertRule Table Protocol Type Family",
}
_CONNECTION_KEYS = {
    "connection": "id type interface-name autoconnect-priority",
    "ethernet": "mtu",
    "infiniband": "mtu transport-mode",
    "ipv4": "method addressN routeN routeN_options routing-ruleN never-default",
    "ipv6": "method addressN routeN routeN_options routing-ruleN never-default addr-gen-mode",
}
_NETPLAN_KEYS = frozenset(
    {
        "renderer",
        "optional",
        "dhcp4",
        "dhcp6",
        "accept-ra",
        "mtu",
        "addresses",
        "routes",
        "routing-policy",
        "link-local",
    }
)
_PORT_COMMANDS = frozenset(
    {"await", "up", "show", "verbs", "dcbx", "ets", "pfc", "dscp", "tos", "address", "guard", "managed"}
)
_CONTINUE = " && continue"
_FILE_LOOP = re.compile(r"for file in (\S+); do put \"\$file\" ([0-9]+); done")


def check_host_files(node: NodePlan, files: Mapping[str, str]) -> None:
    """Read each file as its program does; AssertionError or ValueError on what nobody intended."""
    for path, text in files.items():
        check = next((check for pattern, check in _CHECKS.items() if re.fullmatch(pattern, path)), None)
        assert check is not None, f"no reader of {path}"
        check(node, path, text)


def list_names(node: NodePlan) -> list[str]:
    """The interface names of a node's ports."""
    return [port.netdev for port in node.ports]


def check_boot_script(node: NodePlan, _: str, text: str) -> None:
    """Behind our functions stand the ports, and under each port commands about it alone."""
    functions = TEXT.split("\n", 1)[1]
    tail = text[text.index(functions) + len(functions) :].splitlines()
    assert tail[:3] == [f"[ $# -gt 0 ] || set -- {' '.join(list_names(node))}", "for port; do", '\tcase "$port" in']
    assert tail[-3:] == ["\tesac", "done", "exit $failed"]
    names, netdev, lines = [], "", []
    for line in tail[3:-3]:
        if line.startswith("\t\t"):
            lines.append(line.strip())
            if line == "\t\t;;":
                check_port_commands(node, netdev, lines[:-1])
                lines = []
        else:
            netdev = line.removeprefix("\t").removesuffix(")")
            names.append(netdev)
    assert names == list_names(node)


def check_port_commands(node: NodePlan, netdev: str, lines: list[str]) -> None:
    """Each command is one of ours, about this port or a file of it."""
    pci = next(port.pci for port in node.ports if port.netdev == netdev)
    folders = (f"/sys/class/net/{netdev}/", f"/sys/bus/pci/devices/{pci}/")
    loops = [match for line in lines if (match := _FILE_LOOP.fullmatch(line))]
    assert all(match[1].startswith(folders) for match in loops), lines
    commands = [line.removesuffix(_CONTINUE) for line in lines if not _FILE_LOOP.fullmatch(line)]
    for name, *words in read_commands(commands):
        if name == "misnamed":
            assert words == [netdev, pci], words
        elif name in _PORT_COMMANDS:
            assert words[0] == netdev, (name, words)
        else:
            assert name in {"put", "vfs", "settle"}, name
            assert name == "settle" or f"{words[0]}/".startswith(folders), words


def check_acs_script(node: NodePlan, _: str, text: str) -> None:
    """Behind our functions stands a line for each port."""
    lines = [line for line in text.splitlines() if line.startswith("direct ")]
    assert [words[1] for words in read_commands(lines)] == [port.pci for port in node.ports if port.pci and port.gpus]


def check_udev(node: NodePlan, path: str, text: str) -> None:
    """The rules name the ports of the plan and nothing else."""
    values = [part for rule in read_udev(text) for part in rule]
    if "-ports" in path:
        assert [value for key, _, value in values if key == "KERNEL"] == list_names(node)
    if "-vfs" in path:
        assert [value for key, _, value in values if key == "TEST"] == [
            f"device/physfn/net/{x}" for x in list_names(node)
        ]
    if "-rdma" in path:
        parents = [value for key, _, value in values if key == "ATTR{parent}"]
        assert parents == [port.netdev for port in node.ports if port.pci]
        rdma = {rail.rail: rail.rdma for rail in node.common.rails}
        programs = {f"rdma_rename %k NAME_FIXED {rdma[port.rail]}" for port in node.ports if port.pci}
        assert {value for key, _, value in values if key == "PROGRAM"} == programs


def check_unit(node: NodePlan, _: str, text: str) -> None:
    """A unit, or a drop-in of one."""
    for _, key, value in read_ini(text, _UNIT_KEYS):
        assert key != "ExecStart" or value.startswith("/bin/sh /etc/trackbed/"), value
        assert key != "Description" or len(value) < 120 + len(node.common.fabric)


def check_networkd(node: NodePlan, path: str, text: str) -> None:
    """A file of networkd is for one port, with its addresses."""
    entries = read_ini(text, _NETWORK_KEYS)
    names = [value for section, key, value in entries if key == "Name"]
    assert all(name in list_names(node) for name in names), names
    if path.endswith(".network"):
        (port,) = (port for port in node.ports if port.netdev == names[0])
        assert [value for _, key, value in entries if key == "Address"] == list(map(str, port.addresses))


def check_connection(node: NodePlan, path: str, text: str) -> None:
    """A keyfile of NetworkManager is for one port."""
    entries = {(section, key): value for section, key, value in read_ini(text, _CONNECTION_KEYS)}
    name = entries["connection", "interface-name"]
    assert name in list_names(node)
    assert path.endswith(f"/trackbed-{name}.nmconnection")


def check_netplan(node: NodePlan, _: str, text: str) -> None:
    """The ports, by name, with keys that netplan has."""
    network = yaml.safe_load(text)["network"]
    assert network.pop("version") == 2
    entries = {name: entry for kind in network.values() for name, entry in kind.items()}
    assert set(network) <= {"ethernets"}
    assert list(entries) == list_names(node)
    for entry in entries.values():
        assert entry.keys() <= _NETPLAN_KEYS, entry.keys() - _NETPLAN_KEYS


def check_ifupdown(node: NodePlan, _: str, text: str) -> None:
    """Stanzas of the ports."""
    lines = [line.split() for line in read_lines(text) if not line.startswith(" ")]
    assert {words[0] for words in lines} <= {"allow-hotplug", "iface"}
    assert [words[1] for words in lines if words[0] == "allow-hotplug"] == list_names(node)
    assert {words[1] for words in lines if words[0] == "iface"} <= set(list_names(node))


def check_sysctl(node: NodePlan, _: str, text: str) -> None:
    """Parameters of the ports or of all, each a number or a few."""
    for line in read_lines(text):
        match = re.fullmatch(r"-net/ipv[46]/(?:(?:conf|neigh)/([A-Za-z0-9_.-]+)/)?[a-z0-9_]+ = [0-9 \t]+", line)
        assert match, line
        assert match[1] in {None, "all", "default", *list_names(node)}, line


def check_words(_: NodePlan, __: str, text: str) -> None:
    """Lines of plain words, as in modprobe.d, modules-load.d, limits.d, rt_tables.d."""
    read_commands([line.replace("*", "any").replace("\t", " ") for line in read_lines(text)])


def check_plan(node: NodePlan, _: str, text: str) -> None:
    """The plan reads back."""
    assert decode_node(text.encode()) == node


def check_kubelet(_: NodePlan, __: str, text: str) -> None:
    """Keys of a KubeletConfiguration."""
    keys = {"apiVersion", "kind", "topologyManagerPolicy", "cpuManagerPolicy", "reservedSystemCPUs"}
    document = yaml.safe_load(text)
    assert document.keys() <= keys, document.keys() - keys
    assert all(isinstance(value, str) for value in document.values()), document


_CHECKS: dict[str, Check] = {
    r"/etc/trackbed/boot\.sh": check_boot_script,
    r"/etc/trackbed/acs\.sh": check_acs_script,
    r"/etc/trackbed/node\.json": check_plan,
    r"/etc/udev/rules\.d/[^/]+\.rules": check_udev,
    r"/etc/systemd/system/.+\.(service|target|conf)": check_unit,
    r"/etc/systemd/network/.+\.(network|link|conf)": check_networkd,
    r"/etc/NetworkManager/system-connections/[^/]+\.nmconnection": check_connection,
    r"/etc/netplan/[^/]+\.yaml": check_netplan,
    r"/etc/network/interfaces\.d/[^/]+": check_ifupdown,
    r"/etc/sysctl\.d/[^/]+\.conf": check_sysctl,
    r"/etc/kubernetes/kubelet\.conf\.d/[^/]+": check_kubelet,
    r"/etc/(modprobe|modules-load)\.d/[^/]+\.conf": check_words,
    r"/etc/security/limits\.d/[^/]+\.conf": check_words,
    r"/etc/iproute2/rt_tables\.d/[^/]+\.conf": check_words,
}
"""Path of a file -> its reader."""
