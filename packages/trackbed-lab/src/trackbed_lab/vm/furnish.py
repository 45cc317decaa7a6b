"""Persistent files of a new emulated server: this machine's /etc without its services, and the lab's own files.

systemd is process 1, udev names interfaces and loads modules, a network manager configures the NICs. Services that
the host's chain does not need are masked. Soft-RoCE stands in for RDMA hardware: a udev rule creates an RDMA device for
each rail's port, named as rdma-core would name a real one. The server is otherwise in its factory state: no IOMMU, no
VFs, MTU 1500, the kernel's interface names.
"""

import os
import secrets
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from trackbed_lab.vm import grub
from trackbed_lab.vm.machine import MANAGEMENT, MANAGEMENT_MAC
from trackbed_lab.vm.managers import ManagerSetup
from trackbed_lab.vm.parts import Parts

UNIT = "trackbed-lab-agent.service"

_MODULES = "# RDMA core, as in modules-load.d of rdma-core; rdma_rxe requests crc32.\n" + "".join(
    f"{name}\n" for name in ("crc32", "rdma_rxe", "ib_uverbs", "rdma_ucm")
)

_UNUSED = (
    "ahci",
    "cfg80211",
    "i2c_i801",
    "iTCO_wdt",
    "kvm_amd",
    "kvm_intel",
    "lpc_ich",
    "pcspkr",
    "psmouse",
    "serio_raw",
)
_BLACKLIST = "".join(f"blacklist {name}\n" for name in _UNUSED)
"""Drivers of the emulated board that the lab does not use."""

_SOFT_ROCE = """#!/bin/sh
# Creates the soft-RoCE device of a port: $1 its interface, $2 its PCI address. rdma-core names real devices like this.
# The lock serializes the runs: two first devices would both open the driver's one UDP port, and one would fail.
# The device's sockets belong to the cgroup of this script, and udev's may not send over IP (IPAddressDeny=any).
echo $$ >/sys/fs/cgroup/cgroup.procs
bus=${2#*:}
bus=${bus%%:*}
exec flock /run/soft-roce rdma link add "rocep$((0x$bus))s0" type rxe netdev "$1"
"""

_RULE = (
    'ACTION=="add", SUBSYSTEM=="net", SUBSYSTEMS=="pci", DRIVERS=="igb", RUN+="/etc/trackbed-lab/soft-roce $name $id"\n'
)

_LINK = f"[Match]\nMACAddress={MANAGEMENT_MAC}\nDriver=virtio_net\n[Link]\nName={MANAGEMENT}\n"
_AGENT = """[Unit]
Description=Runs commands for the lab
After=systemd-networkd.service
DefaultDependencies=no
After=sysinit.target
Conflicts=shutdown.target
Before=shutdown.target

[Service]
ExecStart={python} -I -u /run/own/agent.py
StandardOutput=journal+console
StandardError=journal+console
Restart=on-failure
RestartSec=1
KillMode=mixed
TimeoutStopSec=2
LimitMEMLOCK=infinity
"""

RECORDER_UNIT = "trackbed-lab-vf-recorder.service"
_RECORDER = """[Unit]
Description=Records which MAC addresses of VFs were set through their ports
DefaultDependencies=no
After=local-fs.target systemd-modules-load.service
Before=basic.target
Conflicts=shutdown.target
Before=shutdown.target

[Service]
Type=notify
ExecStartPre=modprobe nlmon
ExecStartPre=-ip link add nlmon0 type nlmon
ExecStartPre=ip link set nlmon0 up
ExecStart={python} -I -u /run/own/vf_recorder.py
StandardError=journal+console
TimeoutStopSec=2
"""

_MANAGER = "[Manager]\nDefaultTimeoutStopSec=5s\nDefaultTimeoutStartSec=60s\nLogLevel=notice\n"

MASKED = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dev-mqueue.mount",
    "e2scrub_reap.service",
    "getty.target",
    "kmod-static-nodes.service",
    "ldconfig.service",
    "modprobe@dm_mod.service",
    "modprobe@drm.service",
    "modprobe@efi_pstore.service",
    "modprobe@fuse.service",
    "modprobe@loop.service",
    "proc-sys-fs-binfmt_misc.automount",
    "remote-fs.target",
    "sys-fs-fuse-connections.mount",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "systemd-ask-password-console.path",
    "systemd-ask-password-wall.path",
    "systemd-binfmt.service",
    "systemd-boot-system-token.service",
    "systemd-firstboot.service",
    "systemd-hwdb-update.service",
    "systemd-initctl.socket",
    "systemd-journal-catalog-update.service",
    "systemd-journal-flush.service",
    "systemd-logind.service",
    "systemd-machine-id-commit.service",
    "systemd-networkd-wait-online.service",
    "systemd-pcrphase-sysinit.service",
    "systemd-pcrphase.service",
    "systemd-pstore.service",
    "systemd-random-seed.service",
    "systemd-timesyncd.service",
    "systemd-tmpfiles-setup-dev.service",
    "systemd-tmpfiles-setup.service",
    "systemd-update-done.service",
    "systemd-update-utmp-runlevel.service",
    "systemd-update-utmp.service",
    "systemd-user-sessions.service",
    "systemd-vconsole-setup.service",
    "timers.target",
    "tmp.mount",
)
"""Masked units, which are useless in a server that runs for minutes and delay its boot."""

_TRIGGER = "[Service]\nExecStart=\nExecStart=-udevadm trigger --type=devices --action=add{}\n".format(
    "".join(f" --subsystem-match={subsystem}" for subsystem in ("pci", "virtio", "net", "block", "infiniband"))
)
"""Limits the coldplug to these subsystems: hundreds of terminals and ACPI devices need no events."""

_EXCLUDED = ("systemd/system", "systemd/network", "udev/rules.d", "fstab", "resolv.conf", "modprobe.d", "sysctl.d")
"""Paths of this machine's /etc that are not copied, because they would configure the server like this machine."""


class ServerFile(NamedTuple):
    """Content and mode of a file on a server."""

    content: str
    mode: int = 0o644


def write_server_files(
    root: Path, parts: Parts, name: str, manager: ManagerSetup, extra_files: Mapping[str, ServerFile]
) -> None:
    """Create a new server's /etc and /boot below `root`; `extra_files` are by path relative to `root`."""
    _copy_folder(Path("/etc"), root / "etc", [Path("/etc") / path for path in _EXCLUDED])
    _copy_folder(parts.tools / "etc", root / "etc", [])
    texts = _render_files(name, parts.made.kernel)
    for path, file in {**{path: ServerFile(content) for path, content in texts.items()}, **extra_files}.items():
        _make_parent(root / path).write_text(file.content)
        (root / path).chmod(file.mode)
    (root / "etc/default/grub.d").mkdir(parents=True, exist_ok=True)
    script = _make_parent(root / "etc/trackbed-lab/soft-roce")
    script.write_text(_SOFT_ROCE)
    script.chmod(0o755)
    _configure_systemd(root / "etc/systemd", manager.UNITS)


def _render_files(name: str, kernel: str) -> dict[str, str]:
    """Return the lab's files of a server: path -> content."""
    return {
        "etc/hostname": f"{name}\n",
        "etc/machine-id": f"{secrets.token_hex(16)}\n",
        "etc/hosts": f"127.0.0.1 localhost\n127.0.1.1 {name}\n::1 localhost\n",
        "etc/fstab": "",
        "etc/default/grub": grub.DEFAULT,
        grub.CONFIGURATION: grub.render_configuration(kernel),
        "etc/modules-load.d/lab.conf": _MODULES,
        "etc/modprobe.d/lab.conf": _BLACKLIST,
        "etc/rdma/modules/rdma.conf": "",
        "etc/rdma/modules/infiniband.conf": "",
        "etc/udev/rules.d/90-lab-soft-roce.rules": _RULE,
        "etc/systemd/network/05-lab.link": _LINK,
        f"etc/systemd/system/{UNIT}": _AGENT.format(python=sys.executable),
        f"etc/systemd/system/{RECORDER_UNIT}": _RECORDER.format(python=sys.executable),
        "etc/systemd/system.conf.d/lab.conf": _MANAGER,
        "etc/systemd/system/systemd-udev-trigger.service.d/lab.conf": _TRIGGER,
    }


def _configure_systemd(folder: Path, units: Iterable[str]) -> None:
    """Enable the agent and these units, mask the units and generators that the server does not need."""
    system = folder / "system"
    for unit in MASKED:
        _make_link(system / unit, "/dev/null")
    for generator in _iter_generators():
        _make_link(folder / "system-generators" / generator, "/dev/null")
    _make_link(system / "default.target", "/lib/systemd/system/multi-user.target")
    for unit in (UNIT, RECORDER_UNIT):
        _make_link(system / "multi-user.target.wants" / unit, f"/etc/systemd/system/{unit}")
    for unit in units:
        _make_link(system / "multi-user.target.wants" / unit, f"/lib/systemd/system/{unit}")


def _iter_generators() -> Iterable[str]:
    return sorted(path.name for path in Path("/lib/systemd/system-generators").glob("*"))


def _make_link(path: Path, target: str) -> None:
    _make_parent(path).unlink(missing_ok=True)
    path.symlink_to(target)


def _make_parent(path: Path) -> Path:
    """Create the folder of a path; return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _copy_folder(source: Path, target: Path, excluded: Iterable[Path]) -> None:
    """Copy a folder without the excluded paths, unreadable files, sockets and devices."""
    for path in sorted(source.iterdir()) if os.access(source, os.R_OK | os.X_OK) else ():
        copy = target / path.name
        if path in excluded:
            continue
        if path.is_symlink():
            _make_link(copy, str(path.readlink()))
        elif path.is_dir():
            copy.mkdir(parents=True, exist_ok=True)
            _copy_folder(path, copy, excluded)
        elif path.is_file() and os.access(path, os.R_OK):
            copy.unlink(missing_ok=True)
            shutil.copy2(path, copy)
