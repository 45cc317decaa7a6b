"""RCP's config.yaml: topology, first octet, host interfaces."""

from typing import NamedTuple

from trackbed.fabric.importers.spectrum_x import SpectrumXScheme
from trackbed.fabric.importers.tree import Tree, find_place, get_list, get_scalar, get_text, get_tree, is_text
from trackbed.fabric.model.problems import Place, Problem, SpecError
from trackbed.fabric.model.ranges import V4, V6
from trackbed.fabric.model.source import Scalar

_TOPOLOGIES = {"2-tier": False, "2-tier-poc": False, "2-tier-custom": False, "3-tier": True}
_PREFIXES = {"": 31, "29": 29, "30": 30, "31": 31}


class RcpConfig(NamedTuple):
    """What config.yaml says of the hosts."""

    scheme: SpectrumXScheme
    planes: int
    ports: list[str]
    """Names or PCI addresses of the ports of a host, in the order of rails, of each rail by plane."""
    problems: list[Problem]
    place: Place


def is_config(tree: object) -> bool:
    """Return whether a document has keys of RCP's configuration."""
    return isinstance(tree, dict) and {"host_first_octet", "topology"} <= set(tree)


def read_config(tree: Tree) -> RcpConfig:
    """Read a configuration. Raises SpecError if the addresses cannot be computed from it."""
    place = find_place(tree) or Place("", 1, 1)
    errors: list[Problem] = []
    problems: list[Problem] = []
    topology = _read_choice(tree, "topology", list(_TOPOLOGIES), errors)
    octet = _read_number(tree, "host_first_octet", 172, errors)
    planes = _read_number(tree, "planes_num", 1, errors)
    prefix = _read_choice(tree, "host_subnet_size", list(_PREFIXES), errors)
    ports = _read_ports(tree, problems)
    if not ports:
        message = "neither host_interfaces nor ports_rename.pci_addr lists the ports of a host in the order of rails"
        errors.append(Problem("no-ports", message, place=place))
    if errors:
        raise SpecError([*errors, *problems])
    scheme = SpectrumXScheme(
        is_3_tier=_TOPOLOGIES[topology],
        has_planes="gb" in get_text(tree, "system_type").lower(),
        first_octet=octet,
        prefix=_PREFIXES[prefix],
        ip_version=V6 if is_text(tree, "ip_version", "ipv6") else V4,
    )
    problems += [*_list_unplaced(tree, planes), *_check_subnets(tree, scheme)]
    return RcpConfig(scheme, planes, ports, problems, place)


def _read_choice(tree: Tree, key: str, choices: list[str], errors: list[Problem]) -> str:
    text = get_text(tree, key)
    if text not in choices:
        message = f"{key} is {text!r}, it must be one of {', '.join(filter(None, choices))}"
        errors.append(Problem("bad-value", message, place=find_place(tree.get(key))))
        return choices[0]
    return text


def _read_number(tree: Tree, key: str, default: int, errors: list[Problem]) -> int:
    scalar = get_scalar(tree, key)
    if scalar is None:
        return default
    text = scalar.text or ""
    if not (text.isascii() and text.isdigit() and 0 < int(text[:4]) <= 255 and len(text) <= 3):  # noqa: PLR2004 - an octet
        errors.append(Problem("bad-value", f"{key} is {text!r}, it must be a number from 1 to 255", place=scalar.place))
        return default
    return int(text)


def _read_ports(tree: Tree, problems: list[Problem]) -> list[str]:
    """Return host_interfaces, else the PCI addresses of the first hardware in ports_rename."""
    names = _list_texts(get_list(tree, "host_interfaces"))
    by_vendor = get_tree(tree, "ports_rename", "pci_addr")
    vendors = [vendor for vendor in by_vendor if _list_texts(get_list(by_vendor, vendor))]
    if names or not vendors:
        return names
    if len(vendors) > 1:
        message = (
            f"ports_rename.pci_addr has {', '.join(vendors)}; the Fabric has those of {vendors[0]} for every host. "
            "Give hosts with other hardware an entry of spec.nodes"
        )
        problems.append(Problem("several-servers", message, place=find_place(by_vendor), severity="warning"))
    return _list_texts(get_list(by_vendor, vendors[0]))


def _list_texts(values: list[object]) -> list[str]:
    return [value.text for value in values if isinstance(value, Scalar) and value.text]


def _list_unplaced(tree: Tree, planes: int) -> list[Problem]:
    """Return a problem for each value that changes the hosts' network and has no place in a Fabric."""
    reasons = {}
    if planes > 1:
        reasons["planes_num"] = "a Fabric has no planes: each port of a rail is a rail of its own"
    if get_text(tree, "overlay").lower() not in {"", "none", "false"}:
        reasons["overlay"] = f"overlay {get_text(tree, 'overlay')} is the switches', and no Fabric has it"
    if get_text(tree, "switch_nos") not in {"", "cumulus"}:
        reasons["switch_nos"] = "a Fabric does not say what the switches run; `trackbed render switch` has --format"
    if "ports_rename" in tree:
        reasons["ports_rename"] = "RCP names ports by a prefix, the Fabric by spec.names: rail0 and so on"
    return [
        Problem("no-place", message, place=find_place(tree.get(key)), severity="warning")
        for key, message in reasons.items()
    ]


def _check_subnets(tree: Tree, scheme: SpectrumXScheme) -> list[Problem]:
    """Return a problem if the addresses depend on the version of the patch that reads host_subnet_size."""
    if scheme.prefix == 31 or scheme.ip_version == V6:  # noqa: PLR2004 - RFC 3021
        return []
    message = (
        f"hosts have the second address of each /{scheme.prefix}, as RCP's patch gives it since 2026-01-20; "
        "before, the subnet's own. Import the hosts' netplan files if theirs differ"
    )
    return [Problem("patch-version", message, place=find_place(tree.get("host_subnet_size")), severity="warning")]
