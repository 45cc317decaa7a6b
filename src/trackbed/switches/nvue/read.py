"""Reader of NVUE configurations: `nv config show` (YAML), with `-o commands`, or with `-o json`.

All three are parsed into one tree of words: `nv set interface swp1 link mtu 9216` becomes
tree["interface"]["swp1"]["link"]["mtu"] with the single key "9216". Defaults are those of Cumulus Linux's QoS chapter:
without trust all traffic has switch priority 0; with trust a DSCP has priority DSCP/8. The RoCE profile trusts DSCP and
assigns priority 3 to class 3, priority 6 to class 6, and all others to class 0.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.model.source import read_yaml
from trackbed.fabric.plan.plan import QosPlan
from trackbed.switches.port_config import PortConfig, Treatment, UnreadableError, normalize_address, parse_number

Tree = dict[str, Any]

DEFAULT_MTU_BYTES = 9216
"""MTU of a front-panel port without a setting."""
_GLOBAL = "default-global"
_LIST_KEYS = frozenset({"interface", "dscp", "traffic-class", "switch-priority"})
"""Words whose next word may list several names, as in swp1-4,swp7 or 24,26."""
_SPAN = re.compile(r"([A-Za-z]*)([0-9]{1,5})-([0-9]{1,5})")
_MAX_NAMES = 4096
"""Maximum number of names in one list."""
_MAX_WORDS = 64
"""Maximum number of words of a command; NVUE's own commands have about twenty at most."""
_OFF = frozenset({"off", "disable", "disabled"})


def parse(raw: bytes) -> Tree:
    """Parse a configuration.

    Raises:
        UnreadableError: it is not an NVUE configuration.
    """
    lines = [line.split() for line in raw.decode(errors="replace").splitlines()]
    commands = [words[2:] for words in lines if words[:2] == ["nv", "set"]]
    tree: Tree = {}
    if commands:
        for words in commands:
            if len(words) > _MAX_WORDS:
                raise UnreadableError(f"a command has {len(words)} words: nv set {' '.join(words[:5])} ...")
            _add_command(tree, words)
        return tree
    for settings in _iter_set_mappings(raw):
        _add_yaml_value(tree, settings)
    return tree


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
        addresses=frozenset(map(normalize_address, _get_subtree(port, "ip", "address"))),
        vlan=parse_number(access[-1], 0) if access else 0,
        rdma=_read_treatment(tree, port, qos.dscp),
        cnp=_read_treatment(tree, port, qos.cnp_dscp),
    )


def read_gateways(tree: Tree, vlan: int) -> frozenset[str]:
    """Return the addresses of a VLAN interface."""
    return frozenset(map(normalize_address, _get_subtree(tree, "interface", f"vlan{vlan}", "ip", "address")))


def _iter_set_mappings(raw: bytes) -> Iterator[Tree]:
    """Yield the `set` mappings in YAML or JSON."""
    try:
        documents = [source.data for source in read_yaml(raw, "configuration")]
    except SpecError as error:
        raise UnreadableError(error.problems[0].message) from error
    items = [item for document in documents for item in (document if isinstance(document, list) else [document])]
    settings = [item["set"] for item in items if isinstance(item, dict) and isinstance(item.get("set"), dict)]
    if not settings:
        raise UnreadableError("it has neither `nv set` commands nor a `set` mapping, as `nv config show` prints them")
    yield from settings


def _add_command(tree: Tree, words: list[str]) -> None:
    """Add a command's words to the tree."""
    if not words:
        return
    head, *tail = words
    below = tree.pop(head, {})
    tree[head] = below  # moves it to the end, because the last setting wins
    if head not in _LIST_KEYS or not tail:
        _add_command(below, tail)
        return
    for name in _expand_names(tail[0]):
        _add_command(below, [name, *tail[1:]])


def _add_yaml_value(tree: Tree, value: object) -> None:
    """Add a YAML value to the tree."""
    if isinstance(value, dict):
        for key, below in value.items():
            subtree = tree.setdefault(str(key), {})
            if key in _LIST_KEYS and isinstance(below, dict):
                expanded = {name: item for names, item in below.items() for name in _expand_names(str(names))}
                _add_yaml_value(subtree, expanded)
            else:
                _add_yaml_value(subtree, below)
    elif isinstance(value, list):
        for item in value:
            _add_yaml_value(tree, item)
    elif value is not None:
        tree.update({name: {} for name in (_expand_names(str(value)) if "," in str(value) else [str(value)])})


def _expand_names(listing: str) -> list[str]:
    """Expand a list with ranges: swp1-3,swp7 becomes swp1, swp2, swp3, swp7."""
    names: list[str] = []
    for item in listing.split(","):
        span = _SPAN.fullmatch(item)
        low, high = (int(span[2]), int(span[3])) if span else (0, 0)
        if high - low + len(names) > _MAX_NAMES:
            raise UnreadableError(f"{listing[:40]} lists more than {_MAX_NAMES} names")
        names += [f"{span[1]}{number}" for number in range(low, high + 1)] if span else [item]
    return names


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
    """Return `lossless`, `lossy`, or the empty string if the RoCE profile is off."""
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
