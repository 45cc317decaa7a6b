"""QEMU's arguments for an emulated server, and the shape of a lab.

Each server has:

- two NUMA nodes, each with its own PCI host bridge (pxb-pcie)
- for each rail a root port with an igb NIC (82576: SR-IOV, 7 VFs), half of them behind each host bridge
- an Intel IOMMU
- a management NIC on a user network, which no other server shares
- for Kubernetes, a NIC on the cluster's network

Rails and cluster network are datagram sockets that the lab's switch joins. Paths are relative to the lab's folder,
because a unix socket's path must be shorter than 108 bytes.
"""

from pathlib import Path

import msgspec

from trackbed_lab.vm.router import Gateway

MAX_SERVERS = 16
MAX_RAILS = 8
"""8 root ports on two host bridges; more have not been tested."""

VFS = 7
"""VFs of each igb NIC, fixed by the emulated hardware (82576 datasheet, section 7.10)."""

MANAGEMENT, MANAGEMENT_MAC = "mgmt0", "02:54:42:ff:ff:00"
ADDRESS, PREFIX, GATEWAY = "10.0.2.15", 24, "10.0.2.2"
"""Defaults of QEMU's user network for its one guest (qemu(1), -netdev user)."""

AGENT_PORT = 7522
"""Port of the agent in a server, on the management NIC only."""

_CPU = "Nehalem-v1"
"""An Intel model, to match the IOMMU, and an old one: TCG is slow at newer features (AVX, SMAP)."""

_IMAGE = "disk.img"
_BUSES = (16, 128)
"""bus_nr of the host bridges, with room for 8 root ports and their NICs behind each."""

ALWAYS = (
    "console=ttyS0",
    "panic=-1",
    "systemd.show_status=no",
    "mitigations=off",
    "audit=0",
    "apparmor=0",
    "selinux=0",
    "psi=0",
    "init_on_alloc=0",
    "rcupdate.rcu_expedited=1",
    "highres=off",
    "SYSTEMD_SECCOMP=0",
)
"""Kernel arguments of the lab: the serial console, and panics that reset the machine. The others are for speed on
emulated processors: high-resolution timers reprogram the emulated interrupt controller thousands of times a second, and
mitigations, audit and filters protect nothing in a lab."""


class LabShape(msgspec.Struct, frozen=True):
    """The number, size and network of a lab's servers."""

    servers: int = 2
    rails: int = 8
    memory: int = 2048
    """MiB of each server."""
    cpus: int = 1
    """Processors of each server. More are slower on a busy machine, as emulated processors wait for one another."""
    accelerator: str = "tcg"
    """kvm or tcg."""

    cluster: bool = False
    """Whether the servers share a network besides the rails, as nodes of a cluster need."""

    leaves: list[list[str]] = []
    """LLDP names of each server's leaves, by rail."""
    gateways: list[list[Gateway]] = []
    """The router's addresses on each rail, one for each subnet; empty: the rails are not joined."""

    def list_servers(self) -> list[str]:
        """Return the servers' names: node-0, node-1, ..."""
        return [f"node-{number}" for number in range(self.servers)]

    @property
    def segments(self) -> int:
        """The number of the switch's segments: the rails, then the cluster's network."""
        return self.rails + self.cluster

    def list_leaves(self, server: int) -> list[str]:
        """Return the names of a server's leaves, by rail."""
        return self.leaves[server] if self.leaves else [f"leaf{rail}" for rail in range(self.rails)]


class BootSettings(msgspec.Struct, frozen=True):
    """QEMU's settings for one server."""

    qemu: list[str]
    kernel: str
    initramfs: str
    shares: dict[str, str]
    """Mount tag -> folder; all but `own` are read-only."""
    port: int
    """Loopback port that is forwarded to the server's agent."""
    tsc_khz: int | None = None
    """Rate of this machine's time stamp counter; None: unknown."""


def build_mac(server_number: int, rail: int) -> str:
    """Return the MAC address of a server's NIC: locally administered, 02:54:42:SERVER:RAIL:00."""
    return f"02:54:42:{server_number:02x}:{rail:02x}:00"


def build_cluster_mac(server_number: int) -> str:
    """Return the MAC address of a server's NIC in the cluster's network."""
    return build_mac(server_number, 0xFF)


def locate_socket(server: int, segment: int, end: str) -> str:
    """Return the socket of a server's NIC (`end` is vm) or of the switch's port for it (sw)."""
    return f"net/{server}-{segment}.{end}"


def build_arguments(shape: LabShape, server: int, boot: BootSettings, kernel_arguments: str) -> list[str]:
    """Return QEMU's command line for one server."""
    return [
        *boot.qemu,
        *_build_board(shape),
        *_build_numa(shape),
        *("-device", "intel-iommu,intremap=off"),
        *_build_bridges(),
        *(word for rail in range(shape.rails) for word in _build_nic(shape, server, rail)),
        *_build_management(boot.port),
        *(_build_cluster_nic_arguments(shape, server) if shape.cluster else ()),
        *(word for tag, folder in boot.shares.items() for word in _build_share(tag, folder)),
        *_build_disk(shape.list_servers()[server]),
        *_build_consoles(shape.list_servers()[server]),
        *("-kernel", boot.kernel, "-initrd", boot.initramfs),
        *("-append", " ".join([*ALWAYS, *_build_clock(boot), kernel_arguments]).strip()),
    ]


def _build_clock(boot: BootSettings) -> list[str]:
    """Select the time stamp counter at its measured rate, else the HPET, which is slow to read (module tsc)."""
    return ["tsc=reliable", f"tsc_early_khz={boot.tsc_khz}"] if boot.tsc_khz else ["tsc=unstable"]


def _build_board(shape: LabShape) -> list[str]:
    """Return board, processor and memory. With KVM, an IOMMU requires the split irqchip; TCG emulates it entirely."""
    kvm = shape.accelerator == "kvm"
    return [
        *("-M", f"q35,kernel-irqchip={'split' if kvm else 'off'}"),
        *("-cpu", "host" if kvm else _CPU),
        *("-accel", "kvm" if kvm else "tcg,thread=multi"),
        *("-smp", str(shape.cpus)),
        *("-m", str(shape.memory)),
        *("-nodefaults", "-display", "none"),
        "-no-reboot",  # QEMU exits at a reset; the keeper reads the boot loader's configuration and starts it again
    ]


def _build_numa(shape: LabShape) -> list[str]:
    """Return two NUMA nodes with half of memory and processors each; a single processor is on node 0."""
    half, cores = shape.memory // 2, max(1, shape.cpus // 2)
    processors = (f"cpus=0-{cores - 1},", f"cpus={cores}-{shape.cpus - 1}," if cores < shape.cpus else "")
    words: list[str] = []
    for node, size in enumerate((half, shape.memory - half)):
        words += ["-object", f"memory-backend-ram,id=m{node},size={size}M"]
        words += ["-numa", f"node,nodeid={node},{processors[node]}memdev=m{node}"]
    return words


def _build_bridges() -> list[str]:
    return [
        word
        for node, bus in enumerate(_BUSES)
        for word in ("-device", f"pxb-pcie,id=px{node},bus_nr={bus},numa_node={node},bus=pcie.0")
    ]


def choose_numa_node(shape: LabShape, rail: int) -> int:
    """Return the NUMA node of a rail's NIC: 0 for the first half of the rails, 1 for the others."""
    return 0 if rail < (shape.rails + 1) // 2 else 1


def _build_nic(shape: LabShape, server: int, rail: int) -> list[str]:
    port = f"pcie-root-port,id=rp{rail},chassis={rail + 1},slot={rail + 1},bus=px{choose_numa_node(shape, rail)}"
    return [
        *_build_cable(server, rail),
        *("-device", port),
        *("-device", f"igb,bus=rp{rail},netdev=n{rail},romfile=,mac={build_mac(server, rail)}"),
    ]


def _build_cable(server: int, segment: int) -> list[str]:
    """Return the network backend that connects a NIC to the switch."""
    local, remote = (locate_socket(server, segment, end) for end in ("vm", "sw"))
    ends = f"local.type=unix,local.path={local},remote.type=unix,remote.path={remote}"
    return ["-netdev", f"dgram,id=n{segment},{ends}"]


def _build_cluster_nic_arguments(shape: LabShape, server: int) -> list[str]:
    device = f"virtio-net-pci,bus=pcie.0,netdev=n{shape.rails},romfile=,mac={build_cluster_mac(server)}"
    return [*_build_cable(server, shape.rails), "-device", device]


def _build_management(port: int) -> list[str]:
    """Return the NIC over which the lab reaches the agent; a server reaches nothing by it."""
    return [
        *("-netdev", f"user,id=u,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:{AGENT_PORT}"),
        *("-device", f"virtio-net-pci,bus=pcie.0,netdev=u,romfile=,mac={MANAGEMENT_MAC}"),
    ]


def _build_share(tag: str, folder: str) -> list[str]:
    """Return a 9p share of a folder of this machine; QEMU's options escape a comma by doubling it."""
    path = folder.replace(",", ",,")
    mode = "" if tag == "own" else ",readonly=on"
    return [
        *("-fsdev", f"local,id={tag},path={path},security_model=none,multidevs=remap{mode}"),
        *("-device", f"virtio-9p-pci,bus=pcie.0,fsdev={tag},mount_tag={tag}"),
    ]


def _build_disk(name: str) -> list[str]:
    """Return the disk. Flushes are not passed to this machine's disk, as only the server's power is ever cut."""
    return [
        *("-drive", f"file={name}/{_IMAGE},format=raw,if=none,id=disk,cache=unsafe"),
        *("-device", "virtio-blk-pci,bus=pcie.0,drive=disk"),
    ]


def _build_consoles(name: str) -> list[str]:
    """Return the serial console, written to a file, and QEMU's control socket."""
    return [
        *("-chardev", f"file,id=console,path={name}/console.log,append=on", "-serial", "chardev:console"),
        *("-qmp", f"unix:{name}/qmp,server=on,wait=off"),
    ]


def find_problems(shape: LabShape) -> list[str]:
    """Return a message for each value of the shape that is out of range."""
    limits = (
        ("servers", shape.servers, 1, MAX_SERVERS),
        ("rails", shape.rails, 1, MAX_RAILS),
        ("CPUs", shape.cpus, 1, 64),
        ("MiB of memory", shape.memory, 1024, 1 << 20),
    )
    return [
        f"{value} {unit}: {low} to {high} can be had" for unit, value, low, high in limits if not low <= value <= high
    ]


def locate_shared_folder(folder: Path, name: str) -> Path:
    """Return the one folder of this machine that a server can write to."""
    return folder / name / "own"


def locate_disk(folder: Path, name: str) -> Path:
    """Return the disk image of a server."""
    return folder / name / _IMAGE
