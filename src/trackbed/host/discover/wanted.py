"""The files, links and commands that `trackbed discover` reads. None holds a secret; only VPD holds serial numbers."""

from trackbed.host.snapshot.snapshot import Wanted

DEVICES = "/sys/bus/pci/devices"
NETDEVS = "/sys/class/net"
RDMA = "/sys/class/infiniband"
DMI = "/sys/class/dmi/id"
KFD = "/sys/class/kfd/kfd/topology/nodes"
TOPOLOGY = ("nvidia-smi", "topo", "-m")
GPUS = ("nvidia-smi", "--query-gpu=index,pci.bus_id", "--format=csv,noheader")

_DEVICE = (
    "class",
    "vendor",
    "device",
    "subsystem_vendor",
    "subsystem_device",
    "numa_node",
    "sriov_totalvfs",
    "sriov_numvfs",
    "label",
    "current_link_speed",
    "current_link_width",
)
_NETDEV = ("address", "addr_assign_type", "type", "speed", "operstate", "mtu", "dev_port")
_RDMA = ("node_type", "fw_ver", "board_id", "ports/*/link_layer", "ports/*/rate", "ports/*/state")

WANTED = Wanted(
    files=(
        *(f"{DEVICES}/*/{name}" for name in _DEVICE),
        *(f"{NETDEVS}/*/{name}" for name in _NETDEV),
        *(f"{RDMA}/*/{name}" for name in _RDMA),
        f"{KFD}/*/properties",
        f"{NETDEVS}/*/device/vpd",
        f"{RDMA}/*/device/vpd",
        f"{DMI}/sys_vendor",
        f"{DMI}/product_name",
        f"{DMI}/product_family",
        "/proc/net/route",
        "/proc/net/ipv6_route",
        "/proc/sys/kernel/hostname",
    ),
    links=(
        f"{DEVICES}/*",
        f"{DEVICES}/*/driver",
        f"{DEVICES}/*/physfn",
        f"{NETDEVS}/*",
        f"{NETDEVS}/*/master",
        f"{NETDEVS}/*/lower_*",
        f"{RDMA}/*",
    ),
    commands=(TOPOLOGY, GPUS),
)
