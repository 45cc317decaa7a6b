"""Captured trees: files of a host below a temporary root, and a scripted runner that does to them what programs do."""

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.host.places import Host
from trackbed.host.kinds.arguments import split_cmdline
from trackbed.host.runner import ProgramResult

INTEL = "processor\t: 0\nvendor_id\t: GenuineIntel\nprocessor\t: 1\nvendor_id\t: GenuineIntel\n"
AMD = INTEL.replace("GenuineIntel", "AuthenticAMD")
ARM = "processor\t: 0\nCPU implementer\t: 0x41\n"

GRUB_DEFAULT = 'GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX_DEFAULT="quiet splash"\nGRUB_CMDLINE_LINUX=""\n'
GRUB_CFG = """\
menuentry 'Ubuntu' --class ubuntu {{
\tlinux\t/vmlinuz-6.8.0-51-generic root=UUID=3f5a ro {arguments}
\tinitrd\t/initrd.img-6.8.0-51-generic
}}
menuentry 'Ubuntu (recovery mode)' {{
\tlinux\t/vmlinuz-6.8.0-51-generic root=UUID=3f5a ro recovery nomodeset
}}
"""
BLS = """\
title Red Hat Enterprise Linux (5.14.0-503.el9.x86_64) 9.5
version 5.14.0-503.el9.x86_64
linux /vmlinuz-5.14.0-503.el9.x86_64
initrd /initramfs-5.14.0-503.el9.x86_64.img $tuned_initrd
options root=/dev/mapper/rhel-root ro crashkernel=1G-4G:192M $tuned_params
"""


def grow(root: Path, files: dict[str, str]) -> None:
    """Write files by absolute path below a root."""
    for path, content in files.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content)


def everything_below(root: Path) -> dict[str, tuple[str, int]]:
    """Content and permissions of every file below a root, without Trackbed's own records."""
    return {
        str(path.relative_to(root)): (path.read_text(errors="replace"), path.stat().st_mode & 0o777)
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink() and "var/lib/trackbed" not in str(path)
    }


@dataclass
class Scripted:
    """Programs by name, each a function of its arguments; what was run stands in `ran`."""

    programs: dict[str, Callable[[Sequence[str]], str | None]]
    ran: list[str] = field(default_factory=list)

    def has_program(self, program: str) -> bool:
        """Whether the script knows it."""
        return program in self.programs

    def run(self, argv: Sequence[str]) -> ProgramResult:
        """What the script answers: status 1 with the words it returns, else 0."""
        self.ran.append(" ".join(argv))
        output = self.programs[argv[0]](argv[1:])
        return ProgramResult(1, output) if output else ProgramResult(0, "")


def with_programs(place: Host, **programs: Callable[[Sequence[str]], str | None]) -> tuple[Host, Scripted]:
    """The host with these programs; `_` in a name stands for `-`."""
    runner = Scripted({name.replace("_", "-"): program for name, program in programs.items()})
    return Host(replace(place.machine, runner=runner), place.far), runner


def grub_host(place: Host, default: str = GRUB_DEFAULT, cpu: str = INTEL) -> tuple[Host, Scripted]:
    """A Debian or Ubuntu host that has booted what its files say."""
    root = place.machine.root
    grow(root, {"/etc/default/grub": default, "/etc/default/grub.d/50-cloud.cfg": "# nothing\n", "/proc/cpuinfo": cpu})
    grow(root, {"/boot/grub/grub.cfg": ""})
    made, runner = with_programs(place, update_grub=lambda _: update_grub(root))
    update_grub(root)
    reboot(root)
    return made, runner


def update_grub(root: Path) -> None:
    """What update-grub does with GRUB_CMDLINE_LINUX_DEFAULT: a shell reads the files, the drop-ins in their order."""
    places = [root / "etc/default/grub", *sorted((root / "etc/default/grub.d").glob("*.cfg"))]
    sourced = "".join(f". '{place}'\n" for place in places) + 'printf %s "$GRUB_CMDLINE_LINUX_DEFAULT"'
    done = subprocess.run(["sh", "-eu"], input=sourced, capture_output=True, text=True, timeout=30, check=True)
    (root / "boot/grub/grub.cfg").write_text(GRUB_CFG.format(arguments=done.stdout))


def reboot(root: Path) -> None:
    """The kernel starts with what grub.cfg says."""
    line = next(line for line in (root / "boot/grub/grub.cfg").read_text().splitlines() if line.startswith("\tlinux"))
    grow(root, {"/proc/cmdline": "BOOT_IMAGE=" + " ".join(split_cmdline(line)[1:]) + "\n"})


def nic(root: Path, netdev: str, pci: str, total: int = 8, rdma: str = "") -> Path:
    """A port in sysfs: its PCI device, its interface, its RDMA device. Returns the PCI device's folder."""
    folder = root / f"sys/devices/pci0000:00/{pci}"
    grow(folder, {"sriov_totalvfs": f"{total}\n", "sriov_numvfs": "0\n"})
    for name, target in ((f"sys/bus/pci/devices/{pci}", folder), (f"sys/class/net/{netdev}/device", folder)):
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
    if rdma:
        grow(folder, {f"infiniband/{rdma}/tc/1/traffic_class": "Global tclass=0\n"})
        grow(root, {"/sys/module/ib_core/parameters/netns_mode": "Y\n"})
        device = root / f"sys/class/infiniband/{rdma}"
        device.mkdir(parents=True)
        (device / "device").symlink_to(folder)
    return folder
