"""What an NVUE configuration says: `nv config show` (YAML), the same with `-o commands`, or with `-o json`.

All three become one tree of words: `nv set interface swp1 link mtu 9216` is tree["interface"]["swp1"]["link"]["mtu"]
with the one key "9216". Defaults are those of Cumulus Linux's QoS chapter: without trust all traffic is switch priority
0; with it a DSCP's priority is DSCP/8; the RoCE profile trusts, and makes priority 3 class 3 and 6 class 6, all else 0.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.model.source import read_yaml
from trackbed.switches.seen import SeenPort, Treatment, UnreadableError, canonical, number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trackbed.fabric.plan.plan import QosPlan

Tree = dict[str, Any]

DEFAULT_MTU_BYTES = 9216
"""Of a front-panel port that says nothing."""
_GLOBAL = "default-global"
_LISTED = frozenset({"interface", "dscp", "traffic-class", "switch-priority"})
"""Words after which several names may stand as one: swp1-4,swp7 or 24,26."""
_SPAN = re.compile(r"([A-Za-z]*)([0-9]{1,5})-([0-9]{1,5})")
_MOST = 4096
"""Names that one word may stand for."""
_LONGEST = 64
"""Words of a command; NVUE's own have some twenty at most."""
_OFF = frozenset({"off", "disable", "disabled"})


def parse(raw: bytes) -> Tree:
    """The tree of a configuration; UnreadableError if it is none."""
    lines = [line.split() for line in raw.decode(errors="replace").splitlines()]
    commands = [words[2:] for words in lines if words[:2] == ["nv", "set"]]
    tree: Tree = {}
    if commands:
        for words in commands:
            if len(words) > _LONGEST:
                raise UnreadableError(f"a command has {len(words)} words: nv set {' '.join(words[:5])} ...")
            _put(tree, words)
        return tree
    for one in _yaml(raw):
        _merge(tree, one)
    return tree


def hostname(tree: Tree) -> str:
    """The switch's own name, empty if it says none."""
    return _last(_at(tree, "system", "hostname"), "")


def port(tree: Tree, name: str, qos: QosPlan) -> SeenPort:
    """What the switch does with one port."""
    own = _at(tree, "interface", name)
    domains = _at(own, "bridge", "domain")
    access = [_last(_at(domain, "access"), "") for domain in domains.values()]
    return SeenPort(
        mtu_bytes=number(_last(_at(own, "link", "mtu"), ""), DEFAULT_MTU_BYTES),
        addresses=frozenset(map(canonical, _at(own, "ip", "address"))),
        vlan=number(access[-1], 0) if access else 0,
        rdma=_treatment(tree, own, qos.dscp),
        cnp=_treatment(tree, own, qos.cnp_dscp),
    )


def gateways(tree: Tree, vlan: int) -> frozenset[str]:
    """Addresses of a VLAN interface."""
    return frozenset(map(canonical, _at(tree, "interface", f"vlan{vlan}", "ip", "address")))


def _yaml(raw: bytes) -> Iterator[Tree]:
    try:
        documents = [source.data for source in read_yaml(raw, "configuration")]
    except SpecError as error:
        raise UnreadableError(error.problems[0].message) from error
    items = [item for one in documents for item in (one if isinstance(one, list) else [one])]
    found = [item["set"] for item in items if isinstance(item, dict) and isinstance(item.get("set"), dict)]
    if not found:
        raise UnreadableError("it has neither `nv set` commands nor a `set` mapping, as `nv config show` prints them")
    yield from found


def _put(tree: Tree, words: list[str]) -> None:
    if not words:
        return
    head, rest = words[0], words[1:]
    below = tree.pop(head, {})
    tree[head] = below  # taken out and put back: the last one said is the last one kept
    if head not in _LISTED or not rest:
        _put(below, rest)
        return
    for name in _names(rest[0]):
        _put(below, [name, *rest[1:]])


def _merge(tree: Tree, value: object) -> None:
    """Put a YAML value below `tree`."""
    if isinstance(value, dict):
        for key, below in value.items():
            inside = tree.setdefault(str(key), {})
            if key in _LISTED and isinstance(below, dict):
                below = {name: item for names, item in below.items() for name in _names(str(names))}  # noqa: PLW2901 - the same mapping with its lists of names spelt out
            _merge(inside, below)
    elif isinstance(value, list):
        for item in value:
            _merge(tree, item)
    elif value is not None:
        tree.update({name: {} for name in (_names(str(value)) if "," in str(value) else [str(value)])})


def _names(words: str) -> list[str]:
    """swp1-3,swp7 as swp1, swp2, swp3, swp7."""
    found: list[str] = []
    for word in words.split(","):
        span = _SPAN.fullmatch(word)
        low, high = (int(span[2]), int(span[3])) if span else (0, 0)
        if high - low + len(found) > _MOST:
            raise UnreadableError(f"{words[:40]} names more than {_MOST} things")
        found += [f"{span[1]}{at}" for at in range(low, high + 1)] if span else [word]
    return found


def _at(tree: Tree, *words: str) -> Tree:
    for word in words:
        tree = tree.get(word) or {}
    return tree


def _last(tree: Tree, otherwise: str) -> str:
    return next(reversed(tree), otherwise)


def _treatment(tree: Tree, own: Tree, dscp: int) -> Treatment:
    roce = _mode(tree)
    priority = _priority(_profile(tree, own, "mapping"), dscp, roce)
    klass = _class(_profile(tree, own, "egress-queue-mapping"), priority, roce)
    marks = _last(_at(_profile(tree, own, "congestion-control"), "traffic-class", str(klass), "ecn"), "")
    served = _last(_at(_profile(tree, own, "egress-scheduler"), "traffic-class", str(klass), "mode"), "")
    return Treatment(
        priority=priority,
        lossless=_lossless(_profile(tree, own, "pfc"), priority, roce),
        ecn=marks not in _OFF if marks else bool(roce) and klass in (0, 3),
        strict=served == "strict" if served else bool(roce) and klass == 6,  # noqa: PLR2004 - the profile's class
    )


def _mode(tree: Tree) -> str:
    """lossless, lossy, or empty where the RoCE profile is off."""
    qos = _at(tree, "qos")
    said = _at(qos, "roce")
    states = {_last(_at(said, word), "on") for word in ("state", "enable")}
    if "roce" not in qos or states & _OFF:
        return ""
    return _last(_at(said, "mode"), "lossless")


def _profile(tree: Tree, own: Tree, kind: str) -> Tree:
    """The profile of one kind that a port uses."""
    return _at(tree, "qos", kind, _last(_at(own, "qos", kind, "profile"), _GLOBAL))


def _priority(mapping: Tree, dscp: int, roce: str) -> int:
    trusted = roce or _last(_at(mapping, "trust"), "") in ("l3", "both")
    said = _last(_at(mapping, "dscp", str(dscp), "switch-priority"), "")
    return number(said, dscp // 8) if trusted else 0


def _class(queues: Tree, priority: int, roce: str) -> int:
    usual = (priority if priority in (3, 6) else 0) if roce else priority
    return number(_last(_at(queues, "switch-priority", str(priority), "traffic-class"), ""), usual)


def _lossless(pfc: Tree, priority: int, roce: str) -> bool:
    if roce == "lossy":
        return False
    said: Iterable[str] = _at(pfc, "switch-priority") or (["3"] if roce else [])
    silent = {_last(_at(pfc, way), "on") for way in ("rx", "tx")} & _OFF
    return str(priority) in said and not silent
