"""Faults of the step routing, injected in an emulated server with ip(8) and sysctls."""

from trackbed_lab.vm.faults.fault import FaultyServer, VmFault
from trackbed_lab.vm.faults.helpers import configure_port

_SYSCTLS = "/etc/sysctl.d/99-zzz-lab.conf"


def _find_table(server: FaultyServer) -> str:
    """Return the number of the rail's table."""
    return str(server.node.common.rails[server.port.rail].table)


def _build_rule(server: FaultyServer) -> tuple[str, ...]:
    """Return selector and priority of the port's planned rule."""
    address = str(server.port.addresses[0]).partition("/")[0]
    return ("from", address, "priority", str(server.node.common.rule_priority + server.port.rail))


def _reapply_plan(server: FaultyServer) -> None:
    server.restore_saved_files()
    configure_port(server)


def _delete_rules(server: FaultyServer) -> None:
    """Delete the port's rules; there are two if both apply and networkd added theirs, with different protocols."""
    for _ in server.run("ip", "rule", "show", *_build_rule(server)).splitlines():
        server.run("ip", "rule", "delete", *_build_rule(server))


def _redirect_rule(server: FaultyServer) -> None:
    _delete_rules(server)
    server.run("ip", "rule", "add", *_build_rule(server), "lookup", str(server.node.common.rails[0].table))


def _restore_rule(server: FaultyServer) -> None:
    _delete_rules(server)
    _reapply_plan(server)


def _shadow_rules(server: FaultyServer) -> None:
    server.run("ip", "rule", "add", "priority", "500", "lookup", "main")


def _unshadow_rules(server: FaultyServer) -> None:
    server.run("ip", "rule", "delete", "priority", "500")


def _flush_table(server: FaultyServer) -> None:
    server.run("ip", "route", "flush", "table", _find_table(server))


def _add_foreign_route(server: FaultyServer) -> None:
    server.run("ip", "route", "add", "192.0.2.0/24", "dev", "lo", "table", _find_table(server))


def _delete_foreign_route(server: FaultyServer) -> None:
    server.run("ip", "route", "delete", "192.0.2.0/24", "dev", "lo", "table", _find_table(server))


def _enable_strict_filter(server: FaultyServer) -> None:
    server.write_file(f"/proc/sys/net/ipv4/conf/{server.port.netdev}/rp_filter", "1")
    server.write_file("/proc/sys/net/ipv4/conf/all/rp_filter", "0")


def _persist_strict_filter(server: FaultyServer) -> None:
    lines = "".join(f"net.ipv4.conf.{name}.rp_filter = 1\n" for name in ("all", server.port.netdev))
    server.write_file(_SYSCTLS, lines)


FAULTS: tuple[VmFault, ...] = (
    VmFault("route-rule-shadowed", _shadow_rules, _unshadow_rules),
    VmFault("route-rule-wrong-table", _redirect_rule, _restore_rule),
    VmFault("route-rule-missing", _delete_rules, _reapply_plan),
    VmFault("route-table-empty", _flush_table, _reapply_plan),
    VmFault("route-table-id-shared", _add_foreign_route, _delete_foreign_route),
    VmFault("route-rp-filter-strict", _enable_strict_filter),
    VmFault("route-rp-filter-reset", _persist_strict_filter),
)
