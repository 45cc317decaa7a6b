"""Facts of a host that no check reads, for whoever studies an archive of `trackbed capture`.

Each program only reads, and runs where it exists. Left out on purpose: `ethtool -m` and `nvidia-smi -q`, which print
serial numbers and little else of use; NetworkManager's connections, which hold keys.
"""

from __future__ import annotations

from trackbed.host.snapshot.recorded_network import ADDRESSES, LINKS
from trackbed.host.snapshot.snapshot import Wanted

_PORT = "{netdev}"
_FUNCTION = "pci/{pci}"
_UNITS = (
    *("systemd-networkd", "NetworkManager", "networking", "wicked", "cloud-init", "openibd", "lldpad", "irqbalance"),
    *(
        "tuned",
        "containerd",
        "crio",
        "k3s",
        "k3s-agent",
        "rke2-server",
        "rke2-agent",
        "kubelet",
        "nvidia-fabricmanager",
    ),
)

SYSTEM = Wanted(
    files=(
        "/etc/os-release",
        "/usr/lib/os-release",
        "/proc/version",
        "/proc/modules",
        "/proc/meminfo",
        "/sys/devices/system/node/node*/cpulist",
        "/sys/devices/system/node/node*/distance",
        "/sys/class/dmi/id/bios_*",
        "/sys/class/dmi/id/board_name",
        "/sys/class/dmi/id/board_vendor",
    ),
    commands=(("uname", "-srvm"), ("lscpu",), ("numactl", "-H"), ("lspci", "-Dnnvvv")),
)
"""Distribution, kernel, mainboard, NUMA nodes, configuration space."""

BOOT = Wanted(
    files=(
        "/etc/default/grub",
        "/etc/default/grub.d/*.cfg",
        "/etc/kernel/cmdline",
        "/boot/loader/entries/*.conf",
        "/boot/loader/loader.conf",
        "/etc/dracut.conf",
        "/etc/dracut.conf.d/*.conf",
        "/etc/initramfs-tools/modules",
        "/etc/modules",
        "/etc/modules-load.d/*.conf",
        "/etc/rdma/*.conf",
        "/etc/rdma/modules/*.conf",
        "/etc/infiniband/openib.conf",
    ),
)
"""Boot loader, initramfs, modules."""

MANAGERS = Wanted(
    files=(
        "/etc/network/interfaces",
        "/etc/network/interfaces.d/*",
        "/etc/sysconfig/network/ifcfg-*",
        "/etc/sysconfig/network-scripts/ifcfg-*",
        "/etc/NetworkManager/NetworkManager.conf",
        "/etc/NetworkManager/conf.d/*.conf",
        "/usr/lib/NetworkManager/conf.d/*.conf",
        "/run/NetworkManager/conf.d/*.conf",
        "/run/netplan/*.yaml",
        "/usr/lib/netplan/*.yaml",
    ),
    commands=(
        ("systemctl", "list-unit-files", "--no-legend", "--no-pager", *(f"{unit}.service" for unit in _UNITS)),
        ("netplan", "get"),
    ),
)
"""Network managers, and what else may write the same settings."""

NICS = Wanted(
    files=(
        "/sys/class/net/*/carrier",
        "/sys/class/net/*/phys_port_name",
        "/sys/class/net/*/phys_switch_id",
        "/sys/class/infiniband/*/hca_type",
        "/sys/class/infiniband/*/hw_rev",
        "/sys/class/infiniband/*/node_desc",
        "/sys/class/infiniband/*/sys_image_guid",
        "/sys/class/infiniband/*/ports/*/state",
        "/sys/class/infiniband/*/ports/*/phys_state",
        "/sys/class/infiniband/*/ports/*/lid",
        "/sys/class/infiniband/*/ports/*/sm_lid",
        "/sys/class/infiniband/*/ports/*/gids/[0-9]",
        "/sys/class/infiniband/*/ports/*/gid_attrs/types/[0-9]",
        "/sys/class/infiniband/*/ports/*/counters/*",
        "/sys/class/infiniband/*/ports/*/hw_counters/*",
    ),
    commands=(
        ("ethtool", "-i", _PORT),
        ("ethtool", "-k", _PORT),
        ("ethtool", "-g", _PORT),
        ("ethtool", "--show-priv-flags", _PORT),
        ("ethtool", _PORT),
        *(("dcb", "-j", part, "show", "dev", _PORT) for part in ("ets", "pfc", "app", "dcbx", "buffer", "maxrate")),
        ("mlnx_qos", "-i", _PORT),
        ("devlink", "-j", "dev", "info"),
        ("devlink", "-j", "port", "show"),
        ("devlink", "-j", "dev", "eswitch", "show", _FUNCTION),
        ("rdma", "-j", "-d", "dev", "show"),
        ("rdma", "-j", "-d", "link", "show"),
        ("rdma", "-j", "system", "show"),
        ("ibstat",),
        ("ofed_info", "-s"),
    ),
)
"""Drivers, firmware, DCB, RDMA devices and their counters."""

NETWORK = Wanted(
    commands=(
        LINKS,
        ADDRESSES,
        ("ip", "-j", "-N", "rule", "show"),
        ("ip", "-j", "-6", "-N", "rule", "show"),
        ("ip", "-j", "-N", "route", "show", "table", "all"),
        ("ip", "-j", "-6", "-N", "route", "show", "table", "all"),
    )
)
"""Interfaces, addresses, rules and routes; `diff` cannot use them."""

RUNTIMES = Wanted(
    files=(
        "/etc/crio/crio.conf",
        "/etc/crio/crio.conf.d/*.conf",
        "/etc/rancher/k3s/config.yaml",
        "/etc/rancher/rke2/config.yaml",
        "/var/lib/rancher/k3s/agent/etc/containerd/config.toml*",
        "/var/lib/rancher/rke2/agent/etc/containerd/config.toml*",
    ),
    commands=(("containerd", "--version"), ("crio", "--version"), ("k3s", "--version"), ("rke2", "--version")),
)
"""Container runtimes that the checks do not know yet."""

GROUPS = {
    "system": SYSTEM,
    "boot": BOOT,
    "network managers": MANAGERS,
    "NICs": NICS,
    "network": NETWORK,
    "runtimes": RUNTIMES,
}
"""What each group of facts is about -> the facts."""
