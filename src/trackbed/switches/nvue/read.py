"""Reader of NVUE configurations, as trees of words (module `tree`).

Defaults are those of Cumulus Linux's QoS chapter: without trust all traffic has switch priority 0; with trust a DSCP
has priority DSCP/8. The RoCE profile trusts DSCP and assigns priority 3 to class 3, priority 6 to class 6, and all
others to class 0. Mode lossless-single-ipool differs from lossless only in its buffers; mode lossy-multi-tc maps DSCPs
to other priorities and has no PFC (RoCE chapter, `nv show qos roce`).

Cumulus Linux 5.15 renamed settings ("New and Changed NVUE Commands"): `ip address` became `ipv4 address` or `ipv6
address`, `enable on` became `state enabled`. Both forms are read.
"""

import re
from collections.abc import Iterable
from typing import Any

from trackbed.fabric.plan.plan import QosPlan
from trackbed.switches.nvue.tree import Tree, parse_tree
from trackbed.switches.port_config import PortConfig, Treatment, UnreadableError, normalize_address, parse_number

DEFAULT_MTU_BYTES = 9216
"""MTU of a front-panel port without a setting."""
_GLOBAL = "default-global"
_OFF = frozenset({"off", "disable", "disabled"})
_ROCE_MODES = ("lossless", "lossless-single-ipool", "lossy")
"""Modes of the RoCE profile whose classes are known."""
_ADDRESS_FAMILIES = ("ip", "ipv4", "ipv6")
_PUNCTUATION = re.compile(r"[\s{}:,\"']+")


def parse(raw: bytes) -> Tree:
    """Parse a configuration.

    Raises:
        UnreadableError: it is not an NVUE configuration, or its RoCE profile has an unknown mode.
    """
    tree = parse_tree(raw)
    mode = _read_roce_mode(tree)
    if mode and mode not in _ROCE_MODES:
        message = (
            f"--check does not know the classes of `qos roce mode {mode[:40]}`, only those of "
            f"{', '.join(_ROCE_MODES)}; compare `nv show qos roce` with the Fabric's qos by hand"
        )
        raise UnreadableError(message, _find_line(raw, mode))
    return tree


def _find_line(raw: bytes, mode: str) -> int:
    """Return the number of the last line that sets this mode, from 1; 0 if there is none."""
    lines = [set(_PUNCTUATION.split(line)) for line in raw.decode(errors="replace").splitlines()]
    return max((number for number, words in enumerate(lines, 1) if {"mode", mode} <= words), default=0)


def read_hostname(tree: Tree) -> str:
    """Return the switch's host name; empty if it has none."""
    return _get_last_key(_get_subtree(tree, "system", "hostname"), "")


def read_port(tree: Tree, name: str, qos: QosPlan) -> PortConfig:
    """Return the settings of one port."""
    port = _get_subtree(tree, "interface", name)
    domains = _get_subtree(port, "bridge", "domain")
    access = [_get_last_key(_get_subtree(domain, "access"), "") for domain in domains.values()]
    return PortConfig(
        mtu_bytes=parse_number(_get_last_key(_get_subtree(port, "link", "mtu"), ""), DEFAULT_MTU_BYTES),
        addresses=_read_addresses(port),
        vlan=parse_number(access[-1], 0) if access else 0,
        rdma=_read_treatment(tree, port, qos.dscp),
        cnp=_read_treatment(tree, port, qos.cnp_dscp),
    )


def read_gateways(tree: Tree, vlan: int) -> frozenset[str]:
    """Return the addresses of a VLAN interface."""
    return _read_addresses(_get_subtree(tree, "interface", f"vlan{vlan}"))


def has_former_commands(tree: Tree) -> bool:
    """Return whether the settings have the form of Cumulus Linux 5.14 and earlier."""
    interfaces: Iterable[Any] = _get_subtree(tree, "interface").values()
    families = {family for interface in interfaces for family in _ADDRESS_FAMILIES if family in interface}
    features = (_get_subtree(tree, "qos", "roce"), _get_subtree(tree, "router", "bgp"))
    return families == {"ip"} or (not families and any("enable" in feature for feature in features))


def _read_addresses(interface: Tree) -> frozenset[str]:
    """Return the addresses of an interface in all forms."""
    addresses = (_get_subtree(interface, family, "address") for family in _ADDRESS_FAMILIES)
    return frozenset(normalize_address(address) for family in addresses for address in family)


def _get_subtree(tree: Tree, *words: str) -> Tree:
    """Return the subtree below these words; empty if there is none."""
    for word in words:
        tree = tree.get(word) or {}
    return tree


def _get_last_key(tree: Tree, default: str) -> str:
    """Return the last key of a tree, which is the effective value of a setting."""
    return next(reversed(tree), default)


def _read_treatment(tree: Tree, port: Tree, dscp: int) -> Treatment:
    """Return the treatment of packets with a DSCP on a port."""
    roce_mode = _read_roce_mode(tree)
    priority = _read_priority(_select_profile(tree, port, "mapping"), dscp, roce_mode)
    klass = _read_traffic_class(_select_profile(tree, port, "egress-queue-mapping"), priority, roce_mode)
    congestion = _select_profile(tree, port, "congestion-control")
    ecn = _get_last_key(_get_subtree(congestion, "traffic-class", str(klass), "ecn"), "")
    scheduler = _select_profile(tree, port, "egress-scheduler")
    mode = _get_last_key(_get_subtree(scheduler, "traffic-class", str(klass), "mode"), "")
    return Treatment(
        priority=priority,
        lossless=_is_lossless(_select_profile(tree, port, "pfc"), priority, roce_mode),
        ecn=ecn not in _OFF if ecn else bool(roce_mode) and klass in (0, 3),
        strict=mode == "strict" if mode else bool(roce_mode) and klass == 6,  # noqa: PLR2004 - the profile's class
    )


def _read_roce_mode(tree: Tree) -> str:
    """Return the mode of the RoCE profile, or the empty string if the profile is off."""
    qos = _get_subtree(tree, "qos")
    roce = _get_subtree(qos, "roce")
    states = {_get_last_key(_get_subtree(roce, key), "on") for key in ("state", "enable")}
    if "roce" not in qos or states & _OFF:
        return ""
    return _get_last_key(_get_subtree(roce, "mode"), "lossless")


def _select_profile(tree: Tree, port: Tree, kind: str) -> Tree:
    """Return the profile that a port uses for a kind of QoS setting, such as `pfc`."""
    return _get_subtree(tree, "qos", kind, _get_last_key(_get_subtree(port, "qos", kind, "profile"), _GLOBAL))


def _read_priority(mapping: Tree, dscp: int, roce_mode: str) -> int:
    """Return the switch priority of a DSCP."""
    is_trusted = roce_mode or _get_last_key(_get_subtree(mapping, "trust"), "") in ("l3", "both")
    priority = _get_last_key(_get_subtree(mapping, "dscp", str(dscp), "switch-priority"), "")
    return parse_number(priority, dscp // 8) if is_trusted else 0


def _read_traffic_class(queues: Tree, priority: int, roce_mode: str) -> int:
    """Return the traffic class of a switch priority."""
    default = (priority if priority in (3, 6) else 0) if roce_mode else priority
    return parse_number(
        _get_last_key(_get_subtree(queues, "switch-priority", str(priority), "traffic-class"), ""), default
    )


def _is_lossless(pfc: Tree, priority: int, roce_mode: str) -> bool:
    """Return whether PFC is on for a switch priority, in both directions."""
    if roce_mode == "lossy":
        return False
    priorities: Iterable[str] = _get_subtree(pfc, "switch-priority") or (["3"] if roce_mode else [])
    is_off = {_get_last_key(_get_subtree(pfc, direction), "on") for direction in ("rx", "tx")} & _OFF
    return str(priority) in priorities and not is_off
