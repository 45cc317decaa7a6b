"""Syntax of the texts of a Fabric and of a plan: names and values that stand in files and commands of hosts.

The models check what an operator writes, and `plan/node_check.py` what a host receives, both with these patterns. None
permits a blank, a quote, a control character, or a sign that a shell, udev, systemd, an XML or a YAML parser reads.
Hosts run this module too, so it uses the standard library only.
"""

from __future__ import annotations

import re

IFNAMSIZ_BYTES = 15
"""Longest interface name: IFNAMSIZ of include/uapi/linux/if.h is 16 with the terminating NUL."""

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
"""RFC 1123, lower case as Kubernetes wants it."""
HOST_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,251}[A-Za-z0-9])?")
"""Host names are used as file names and Kubernetes node names, so other characters are refused."""
RDMA_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}")
"""IB_DEVICE_NAME_MAX of include/uapi/rdma/rdma_netlink.h is 64 with the terminating NUL."""
LEAF_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
"""The name of a switch, also of its file."""
RESOURCE = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?")
"""An extended resource (Kubernetes: a qualified name) whose name every device plugin accepts."""
EXTENDED_RESOURCE = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
"""An extended resource of others: a qualified name with its domain."""

MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
"""An Ethernet address, lower case."""
PORT_MAC = re.compile(r"(?!00(:00){5})[0-9a-f][02468ace](:[0-9a-f]{2}){5}")
"""A MAC address that a port can have: neither of a group nor 0, which `lo` and tunnels have."""
PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]")
"""A PCI address with its domain, as under /sys/bus/pci/devices."""
PCI_ID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}")
"""PCI vendor and device."""

CPUS = re.compile(r"[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*")
"""A list of CPUs, as 4-63,68."""
KERNEL_ARGUMENT = re.compile(r"[A-Za-z0-9_.-]+(=[A-Za-z0-9_.,:;/@+=-]+)?")
"""A kernel argument without blanks, quotes and `$`, which a shell would read in GRUB's files."""

REPOSITORY_URL = re.compile(r"(https?|file)://[A-Za-z0-9._~:/@%+-]+")
ABSOLUTE_PATH = re.compile(r"(/[A-Za-z0-9._+-]+)+")
REPOSITORY_WORD = re.compile(r"[A-Za-z0-9./_-]+")
"""A suite or a component of an apt repository."""
PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9+._-]*")
PACKAGE_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+:~^_-]*")
IMAGE = re.compile(r"[a-z0-9][A-Za-z0-9._-]*(:[0-9]+)?(/[A-Za-z0-9._-]+)*(:[A-Za-z0-9._-]+)?(@sha256:[0-9a-f]{64})?")
"""A reference to a container image, with a tag or a digest or neither."""

_INTERFACE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_PCI_WITHOUT_DOMAIN = re.compile(r"[0-9A-Fa-f]{2}:[01][0-9A-Fa-f]\.[0-7]")
"""A PCI address as lspci(8) shortens it."""
_RESERVED_NAMES = frozenset({"all", "default", "lo", "bonding_masters"})
"""`all` and `default` are folders of /proc/sys/net/ipv4/conf, bonding_masters is a file of /sys/class/net."""


def explain_bad_interface_name(name: str) -> tuple[str, str] | None:
    """Return code and message of what is wrong with an interface name; None if nothing is.

    The kernel takes more (dev_valid_name in net/core/dev.c). systemd takes no name of digits alone, which programs read
    as an index (ifname_valid_full in src/basic/socket-util.c).
    """
    length = len(name.encode(errors="replace"))
    if length > IFNAMSIZ_BYTES:
        return "name-too-long", f"interface name {name!r} has {length} bytes, the kernel allows {IFNAMSIZ_BYTES}"
    if _PCI_WITHOUT_DOMAIN.fullmatch(name):
        return "bad-name", f"{name!r} is no interface name, but a PCI address without its domain; write 0000:{name}"
    if not _INTERFACE_NAME.fullmatch(name):
        return "bad-name", (
            f"interface name {name!r} is not one that every tool reads as it is: write letters, digits, '_', '.' and "
            "'-', the first of them no '.' or '-'"
        )
    if name.isdigit() or name in _RESERVED_NAMES:
        return "bad-name", f"interface name {name!r} means something else to the kernel or its tools; write another one"
    return None
