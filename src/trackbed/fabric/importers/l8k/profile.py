"""Fields of a Fabric from l8k's profile: mode, stack, VFs, MTU, names. What has no place in a Fabric is a problem."""

import re
from collections.abc import Iterator

from trackbed.fabric.importers.result import NOTE
from trackbed.fabric.importers.tree import Tree, find_place, get_list, get_scalar, get_text, get_tree, is_text, is_true
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.model.source import Scalar

_ETHERNET = {
    "sriov": ("sriov", "network-operator-sriov"),
    "rdma_shared": ("macvlan", "network-operator-macvlan"),
    "host_device": ("move", "network-operator-hostdevice"),
}
_INFINIBAND = {
    "sriov": ("sriov", "network-operator-ib-sriov"),
    "rdma_shared": ("macvlan", "network-operator-ipoib"),
    "host_device": ("move", "network-operator-hostdevice"),
}
"""profile.deployment -> (spec.pods.mode, spec.kubernetes.stack)."""

_OPERATIONS = ("networkOperator", "validation", "maintenance", "workload", "nfd")
_PLACEHOLDER = re.compile(r"%[a-z_]+%")


def is_infiniband(tree: Tree) -> bool:
    """Return whether the profile is one of InfiniBand."""
    return is_text(get_tree(tree, "profile"), "fabric", "infiniband")


def is_spectrum_x(tree: Tree) -> bool:
    """Return whether the profile is Spectrum-X."""
    return is_true(get_tree(tree, "profile", "spectrumX"), "enable")


def iter_fields(tree: Tree, problems: list[Problem]) -> Iterator[dict[str, object]]:
    """Yield fields of `spec`, each by itself."""
    profile, sriov = get_tree(tree, "profile"), get_tree(tree, "sriov")
    deployment = get_text(profile, "deployment")
    mode, stack = (_INFINIBAND if is_infiniband(tree) else _ETHERNET).get(deployment, ("", ""))
    if is_spectrum_x(tree):
        mode, stack = "sriov", "spectrum-x"
    if deployment and not stack:
        message = f"profile.deployment is {deployment!r}, which no stack of Trackbed is; set spec.kubernetes.stack"
        problems.append(Problem("no-place", message, place=find_place(profile.get("deployment")), severity="warning"))
    count = get_text(sriov, "numVfs")
    if mode == "sriov" and count:
        yield {"vfs": {"count": "1" if is_spectrum_x(tree) else count}}
    mtu = get_text(sriov, "infinibandMtu" if is_infiniband(tree) else "ethernetMtu")
    if mode == "sriov" and mtu:
        yield {"mtu": mtu}
    if mode:
        yield {"pods": {"mode": mode}}
    yield {"names": _build_names(tree, problems)}
    yield {"kubernetes": _build_kubernetes(tree, stack)}


def _build_kubernetes(tree: Tree, stack: str) -> dict[str, object] | None:
    namespaces = [item.text for item in get_list(tree, "networkNamespaces") if isinstance(item, Scalar) and item.text]
    fields: dict[str, object] = {"stack": stack} if stack else {}
    fields |= {"namespace": namespaces[0]} if namespaces and namespaces[0] != "default" else {}
    fields |= {"driver": "container"} if is_true(get_tree(tree, "docaDriver"), "enable") else {}
    return fields or None


def _build_names(tree: Tree, problems: list[Problem]) -> dict[str, str] | None:
    """Return spec.names: the templates that l8k's operator renames the ports by."""
    section = get_tree(tree, "nicConfigurationOperator")
    if is_spectrum_x(tree):
        mode = get_text(get_tree(tree, "profile", "spectrumX"), "multiplaneMode")
        section = get_tree(tree, "spectrumX", mode if mode in {"hwplb", "swplb"} else "singlePlane")
        section = section or get_tree(tree, "spectrumX")
    elif not is_true(section, "deployNicInterfaceNameTemplate"):
        return None
    names = {}
    for field, key in (("netdev", "netdevPrefix"), ("rdma", "rdmaPrefix")):
        template = get_text(section, key).replace("%rail_id%", "{rail}")
        if _PLACEHOLDER.search(template):
            message = f"{key} has {_PLACEHOLDER.findall(template)[0]}, which no name of a Fabric has"
            problems.append(Problem("no-place", message, place=find_place(section.get(key)), severity="warning"))
        elif "{rail}" in template:
            names[field] = template
    return names or None


def list_unplaced(tree: Tree) -> list[Problem]:
    """Return a problem for each value that changes the rails, a note for each that does not."""
    profile, ipam, spectrum_x = get_tree(tree, "profile"), get_tree(tree, "nvIpam"), get_tree(tree, "spectrumX")
    reasons: list[tuple[object, str, str]] = []
    if is_text(profile, "multirail", "false"):
        message = "multirail is false, so l8k makes one network of all ports; in a Fabric each is a rail of its own"
        reasons.append((profile["multirail"], message, "warning"))
    if is_text(profile, "routing", "destination-based"):
        message = "routing is destination-based; Trackbed's rails are source-routed"
        reasons.append((profile["routing"], message, "warning"))
    for key in ("reserveFirstIPs", "reserveLastIPs"):
        if get_text(ipam, key) not in {"", "0"}:
            message = f"{key}: a Fabric excludes no addresses; its first block of a rail belongs to no node"
            reasons.append((ipam[key], message, "warning"))
    if any(get_list(subnet, "exclusions") for subnet in get_list(ipam, "subnets") if isinstance(subnet, dict)):
        message = "exclusions: a Fabric excludes no addresses; keep a range free by spec.otherRanges"
        reasons.append((ipam["subnets"], message, "warning"))
    if get_text(spectrum_x, "overlay") not in {"", "none"}:
        reasons.append((spectrum_x["overlay"], "overlay is the switches', and no Fabric has it", "warning"))
    if len(get_list(tree, "networkNamespaces")) > 1:
        message = "a Fabric has one namespace of pods with rails: the first"
        reasons.append((tree["networkNamespaces"], message, "warning"))
    operations = [key for key in _OPERATIONS if key in tree]
    if operations:
        message = f"{', '.join(operations)}: how l8k deploys and validates, which a Fabric does not say"
        reasons.append((tree[operations[0]], message, NOTE))
    return [
        Problem("no-place", message, place=find_place(value), severity=severity) for value, message, severity in reasons
    ]


def get_number(tree: Tree, key: str, default: int, problems: list[Problem]) -> int:
    """Return the number of a key up to 65535; the default without one, and with a problem if it is none."""
    scalar = get_scalar(tree, key)
    text = (scalar.text if scalar else None) or str(default)
    if text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= 65535:  # noqa: PLR2004 - 16 bits
        return int(text)
    message = f"{key} is {text!r}, it must be a number; {default} is used"
    problems.append(Problem("bad-value", message, place=scalar.place if scalar else None, severity="warning"))
    return default
