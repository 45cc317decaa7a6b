"""Faults of the step routing, made in an emulated server with ip(8) and sysctls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed_lab.vm.faults.fault import VmFault
from trackbed_lab.vm.faults.ways import configure_port

if TYPE_CHECKING:
    from trackbed_lab.vm.faults.fault import FaultyServer

_SYSCTLS = "/etc/sysctl.d/99-zzz-lab.conf"


def _table(server: FaultyServer) -> str:
    return str(server.node.common.rails[server.port.rail].table)


def _rule(server: FaultyServer) -> tuple[str, ...]:
    own = server.port.addressed[0]
    return ("from", str(own).partition("/")[0], "priority", str(server.node.common.rule_priority + server.port.rail))


def _again(server: FaultyServer) -> None:
    server.restore()
    configure_port(server)


def _no_rule(server: FaultyServer) -> None:
    """The kernel holds the same rule twice where apply and networkd have each made it: their protocols differ."""
    for _ in server.run("ip", "rule", "show", *_rule(server)).splitlines():
        server.run("ip", "rule", "delete", *_rule(server))


def _astray(server: FaultyServer) -> None:
    _no_rule(server)
    server.run("ip", "rule", "add", *_rule(server), "lookup", str(server.node.common.rails[0].table))


def _back(server: FaultyServer) -> None:
    _no_rule(server)
    _again(server)


def _shadowed(server: FaultyServer) -> None:
    server.run("ip", "rule", "add", "priority", "500", "lookup", "main")


def _unshadowed(server: FaultyServer) -> None:
    server.run("ip", "rule", "delete", "priority", "500")


def _empty(server: FaultyServer) -> None:
    server.run("ip", "route", "flush", "table", _table(server))


def _shared(server: FaultyServer) -> None:
    server.run("ip", "route", "add", "192.0.2.0/24", "dev", "lo", "table", _table(server))


def _unshared(server: FaultyServer) -> None:
    server.run("ip", "route", "delete", "192.0.2.0/24", "dev", "lo", "table", _table(server))


def _strict(server: FaultyServer) -> None:
    server.write(f"/proc/sys/net/ipv4/conf/{server.port.netdev}/rp_filter", "1")
    server.write("/proc/sys/net/ipv4/conf/all/rp_filter", "0")


def _strict_at_boot(server: FaultyServer) -> None:
    lines = "".join(f"net.ipv4.conf.{name}.rp_filter = 1\n" for name in ("all", server.port.netdev))
    server.write(_SYSCTLS, lines)


FAULTS: tuple[VmFault, ...] = (
    VmFault("route-rule-shadowed", _shadowed, _unshadowed),
    VmFault("route-rule-wrong-table", _astray, _back),
    VmFault("route-rule-missing", _no_rule, _again),
    VmFault("route-table-empty", _empty, _again),
    VmFault("route-table-id-shared", _shared, _unshared),
    VmFault("route-rp-filter-strict", _strict),
    VmFault("route-rp-filter-reset", _strict_at_boot),
)
