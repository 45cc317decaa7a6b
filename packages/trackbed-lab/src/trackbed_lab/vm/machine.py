"""How an emulated server is built: QEMU's arguments, as a function of what is wanted.

Each server has two NUMA nodes, each with a PCI host bridge of its own (pxb-pcie), and behind those, half on each, one
root port for every rail with an igb NIC (82576: SR-IOV, 7 VFs) in it; an Intel IOMMU; a management NIC on a user
network, which no other server shares; and for Kubernetes a NIC on the cluster's network. Rails and that network are
datagram sockets that the lab's switch joins. Paths are relative to the lab's folder: a unix socket's name must be
shorter than 108 bytes.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from trackbed_lab.vm.router import Gateway

MAX_SERVERS = 16
MAX_RAILS = 8
"""8 root ports on two host bridges; more than that no recipe has tried."""

VFS = 7
"""Of each igb, fixed by the hardware that it imitates (82576 datasheet, section 7.10)."""

MANAGEMENT_MAC = "02:54:42:ff:ff:00"
AGENT_PORT = 7522
"""Where the agent listens in a server, on the management NIC alone."""

_CPU = "Nehalem-v1"
"""Intel, as the IOMMU is; and old: what newer ones have (AVX, SMAP) an emulator does slowly."""

_IMAGE = "disk.img"
_BUSES = (16, 128)
"""bus_nr of the host bridges: room for 8 root ports and their NICs behind each."""

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
"""Kernel arguments that the lab itself needs: a console to read, and a panic that ends the machine. The others are for
speed on emulated processors: timers of high resolution set an emulated interrupt controller anew thousands of times a
second, and mitigations, audit and filters guard nobody here."""


class LabShape(msgspec.Struct, frozen=True):
    """What a lab of emulated servers looks like."""

    servers: int = 2
    rails: int = 8
    memory: int = 2048
    """MiB for each server."""
    cpus: int = 1
    """Emulated processors that wait for one another on a busy machine cost more than they bring."""
    accelerator: str = "tcg"
    """kvm or tcg."""

    cluster: bool = False
    """Whether there is a network of all servers beside the rails, for nodes of a cluster to speak to one another."""

    leaves: list[str] = []
    """What the leaf of each rail calls itself."""
    gateways: list[Gateway] = []
    """The router's address on each rail; none: the rails are not joined."""

    def list_servers(self) -> list[str]:
        """node-0, node-1, ..."""
        return [f"node-{number}" for number in range(self.servers)]

    @property
    def segments(self) -> int:
        """How many networks the switch joins: the rails, then the cluster's."""
        return self.rails + self.cluster

    def list_leaves(self) -> list[str]:
        """The leaf of each rail."""
        return self.leaves or [f"leaf{rail}" for rail in range(self.rails)]


class BootSettings(msgspec.Struct, frozen=True):
    """All that QEMU must know to start one server."""

    qemu: list[str]
    kernel: str
    initramfs: str
    shares: dict[str, str]
    """Mount tag -> folder; read-only but for `own`."""
    port: int
    """Loopback port that leads to the server's agent."""
    tsc_khz: int | None = None
    """Rate of this machine's time stamp counter, where it is known."""


def build_mac(server: int, rail: int) -> str:
    """The address of a server's NIC: locally administered, 02:54:42:SERVER:RAIL:00."""
    return f"02:54:42:{server:02x}:{rail:02x}:00"


def build_cluster_mac(server: int) -> str:
    """The address of a server's NIC in the cluster's network."""
    return build_mac(server, 0xFF)


def locate_socket(server: int, segment: int, end: str) -> str:
    """The socket of a server's NIC (`end` vm) or of the switch's port for it (sw)."""
    return f"net/{server}-{segment}.{end}"


def build_arguments(shape: LabShape, server: int, boot: BootSettings, kernel_arguments: str) -> list[str]:
    """QEMU's whole command line for one server."""
    return [
        *boot.qemu,
        *_board(shape),
        *_numa(shape),
        *("-device", "intel-iommu,intremap=off"),
        *_bridges(),
        *(word for rail in range(shape.rails) for word in _nic(shape, server, rail)),
        *_management(boot.port),
        *(_cluster(shape, server) if shape.cluster else ()),
        *(word for tag, folder in boot.shares.items() for word in _share(tag, folder)),
        *_disk(shape.list_servers()[server]),
        *_lines(shape.list_servers()[server]),
        *("-kernel", boot.kernel, "-initrd", boot.initramfs),
        *("-append", " ".join([*ALWAYS, *_clock(boot), kernel_arguments]).strip()),
    ]


def _clock(boot: BootSettings) -> list[str]:
    """The time stamp counter at its true rate; where that is not known the HPET, which is slow to read (module tsc)."""
    return ["tsc=reliable", f"tsc_early_khz={boot.tsc_khz}"] if boot.tsc_khz else ["tsc=unstable"]


def _board(shape: LabShape) -> list[str]:
    """The board. An interrupt controller in the kernel and an IOMMU need it split; TCG has none in the kernel."""
    kvm = shape.accelerator == "kvm"
    return [
        *("-M", f"q35,kernel-irqchip={'split' if kvm else 'off'}"),
        *("-cpu", "host" if kvm else _CPU),
        *("-accel", "kvm" if kvm else "tcg,thread=multi"),
        *("-smp", str(shape.cpus)),
        *("-m", str(shape.memory)),
        *("-nodefaults", "-display", "none"),
        "-no-reboot",  # a reset ends QEMU; the keeper reads the boot loader's configuration and starts it again
    ]


def _numa(shape: LabShape) -> list[str]:
    """Two nodes with half the memory and half the processors each; with one processor, node 1 has memory alone."""
    half, cores = shape.memory // 2, max(1, shape.cpus // 2)
    processors = (f"cpus=0-{cores - 1},", f"cpus={cores}-{shape.cpus - 1}," if cores < shape.cpus else "")
    words: list[str] = []
    for node, size in enumerate((half, shape.memory - half)):
        words += ["-object", f"memory-backend-ram,id=m{node},size={size}M"]
        words += ["-numa", f"node,nodeid={node},{processors[node]}memdev=m{node}"]
    return words


def _bridges() -> list[str]:
    return [
        word
        for node, bus in enumerate(_BUSES)
        for word in ("-device", f"pxb-pcie,id=px{node},bus_nr={bus},numa_node={node},bus=pcie.0")
    ]


def choose_numa_node(shape: LabShape, rail: int) -> int:
    """Where a rail's NIC sits: the first half of the rails on node 0, the others on node 1."""
    return 0 if rail < (shape.rails + 1) // 2 else 1


def _nic(shape: LabShape, server: int, rail: int) -> list[str]:
    port = f"pcie-root-port,id=rp{rail},chassis={rail + 1},slot={rail + 1},bus=px{choose_numa_node(shape, rail)}"
    return [
        *_line(server, rail),
        *("-device", port),
        *("-device", f"igb,bus=rp{rail},netdev=n{rail},romfile=,mac={build_mac(server, rail)}"),
    ]


def _line(server: int, segment: int) -> list[str]:
    """A cable to the switch."""
    ours, theirs = (locate_socket(server, segment, end) for end in ("vm", "sw"))
    ends = f"local.type=unix,local.path={ours},remote.type=unix,remote.path={theirs}"
    return ["-netdev", f"dgram,id=n{segment},{ends}"]


def _cluster(shape: LabShape, server: int) -> list[str]:
    device = f"virtio-net-pci,bus=pcie.0,netdev=n{shape.rails},romfile=,mac={build_cluster_mac(server)}"
    return [*_line(server, shape.rails), "-device", device]


def _management(port: int) -> list[str]:
    return [
        *("-netdev", f"user,id=u,hostfwd=tcp:127.0.0.1:{port}-:{AGENT_PORT}"),
        *("-device", f"virtio-net-pci,bus=pcie.0,netdev=u,romfile=,mac={MANAGEMENT_MAC}"),
    ]


def _share(tag: str, folder: str) -> list[str]:
    """A folder of this machine; a comma in its path is doubled, as QEMU's options want it."""
    path = folder.replace(",", ",,")
    mode = "" if tag == "own" else ",readonly=on"
    return [
        *("-fsdev", f"local,id={tag},path={path},security_model=none,multidevs=remap{mode}"),
        *("-device", f"virtio-9p-pci,bus=pcie.0,fsdev={tag},mount_tag={tag}"),
    ]


def _disk(name: str) -> list[str]:
    """What lives through reboots. A flush is not passed on to this machine's disk: only the server's power is cut."""
    return [
        *("-drive", f"file={name}/{_IMAGE},format=raw,if=none,id=disk,cache=unsafe"),
        *("-device", "virtio-blk-pci,bus=pcie.0,drive=disk"),
    ]


def _lines(name: str) -> list[str]:
    """The serial console, kept in a file; and QEMU's own control socket."""
    return [
        *("-chardev", f"file,id=console,path={name}/console.log,append=on", "-serial", "chardev:console"),
        *("-qmp", f"unix:{name}/qmp,server=on,wait=off"),
    ]


def find_problems(shape: LabShape) -> list[str]:
    """What cannot be built, in words; empty if all is well."""
    limits = (
        ("servers", shape.servers, 1, MAX_SERVERS),
        ("rails", shape.rails, 1, MAX_RAILS),
        ("CPUs", shape.cpus, 1, 64),
        ("MiB of memory", shape.memory, 1024, 1 << 20),
    )
    return [
        f"{value} {what}: {low} to {high} can be had" for what, value, low, high in limits if not low <= value <= high
    ]


def locate_shared_folder(folder: Path, name: str) -> Path:
    """The one folder that a server can write to."""
    return folder / name / "own"


def locate_disk(folder: Path, name: str) -> Path:
    """The server's disk."""
    return folder / name / _IMAGE
