"""What a new emulated server has in its /etc: this machine's, less what this machine runs, and the lab's own few files.

systemd is process 1, udev names and loads, networkd keeps the management NIC; of all other services only those are left
that a host's chain needs. Soft-RoCE stands in for RDMA hardware: a udev rule makes an RDMA device for each rail's port,
called as rdma-core would call a real one. Nothing else is set: no IOMMU, no VFs, small MTUs, kernel's own names.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from trackbed_lab.vm import grub
from trackbed_lab.vm.machine import MANAGEMENT_MAC

MANAGEMENT = "mgmt0"
ADDRESS, PREFIX, GATEWAY = "10.0.2.15", 24, "10.0.2.2"
"""What QEMU's user network has for its one guest (qemu(1), -netdev user)."""

UNIT = "trackbed-lab-agent.service"

_MODULES = "# RDMA core, as rdma-core's own modules-load.d has it; crc32 is what rdma_rxe asks for.\n" + "".join(
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
"""Of the board, and of no use here."""

_SOFT_ROCE = """#!/bin/sh
# Makes the soft-RoCE device of a port: $1 its interface, $2 its PCI address. Called as rdma-core calls real ones.
# One at a time: two that are first at once both open the one UDP port, and one of them fails.
bus=${2#*:}
bus=${bus%%:*}
exec flock /run/soft-roce rdma link add "rocep$((0x$bus))s0" type rxe netdev "$1"
"""

_RULE = (
    'ACTION=="add", SUBSYSTEM=="net", SUBSYSTEMS=="pci", DRIVERS=="igb", RUN+="/etc/trackbed-lab/soft-roce $name $id"\n'
)

_LINK = f"[Match]\nMACAddress={MANAGEMENT_MAC}\nDriver=virtio_net\n[Link]\nName={MANAGEMENT}\n"
_NETWORK = f"""[Match]
Name={MANAGEMENT}
[Network]
Address={ADDRESS}/{PREFIX}
Gateway={GATEWAY}
LinkLocalAddressing=no
IPv6AcceptRA=no
"""

_AGENT = """[Unit]
Description=Runs what the lab asks for
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
    "systemd-timedated.service",
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
"""Units that cost boot time and are of no use in a server that lives for minutes."""

_TRIGGER = "[Service]\nExecStart=\nExecStart=-udevadm trigger --type=devices --action=add{}\n".format(
    "".join(f" --subsystem-match={one}" for one in ("pci", "virtio", "net", "block", "infiniband"))
)
"""Of what the kernel found before udev ran only this matters: hundreds of terminals and ACPI devices are passed by."""

_LEFT_OUT = ("systemd/system", "systemd/network", "udev/rules.d", "fstab", "resolv.conf", "modprobe.d", "sysctl.d")
"""What of this machine's /etc would make it act like this machine."""


class ServerFile(NamedTuple):
    """A file of a server."""

    content: str
    mode: int = 0o644


def write_server_files(root: Path, tools: Path, name: str, kernel: str, more: Mapping[str, ServerFile]) -> None:
    """Make a new server's persistent folders below `root`; `more` is what else is there, by path."""
    for source in (Path("/etc"), tools / "etc"):
        _copy(source, root / "etc", [source / left for left in _LEFT_OUT] if source == Path("/etc") else [])
    texts = {
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
        "etc/systemd/network/05-lab.network": _NETWORK,
        f"etc/systemd/system/{UNIT}": _AGENT.format(python=sys.executable),
        "etc/systemd/system.conf.d/lab.conf": _MANAGER,
        "etc/systemd/system/systemd-udev-trigger.service.d/lab.conf": _TRIGGER,
    }
    for path, text in {**{path: ServerFile(content) for path, content in texts.items()}, **more}.items():
        _place(root / path).write_text(text.content)
        (root / path).chmod(text.mode)
    _place(root / "etc/default/grub.d/x").parent.mkdir(exist_ok=True)
    script = _place(root / "etc/trackbed-lab/soft-roce")
    script.write_text(_SOFT_ROCE)
    script.chmod(0o755)
    _systemd(root / "etc/systemd")


def _systemd(folder: Path) -> None:
    """What is started: the agent, udev, networkd and what they pull in."""
    system = folder / "system"
    for unit in MASKED:
        _link(system / unit, "/dev/null")
    for generator in _generators():
        _link(folder / "system-generators" / generator, "/dev/null")
    _link(system / "default.target", "/lib/systemd/system/multi-user.target")
    for unit in (UNIT, "/lib/systemd/system/systemd-networkd.service"):
        name = unit.rpartition("/")[2]
        _link(system / "multi-user.target.wants" / name, unit if "/" in unit else f"/etc/systemd/system/{unit}")


def _generators() -> Iterable[str]:
    return sorted(one.name for one in Path("/lib/systemd/system-generators").glob("*"))


def _link(path: Path, target: str) -> None:
    _place(path).unlink(missing_ok=True)
    path.symlink_to(target)


def _place(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _copy(source: Path, target: Path, left_out: Iterable[Path]) -> None:
    """Copy a folder but for what is left out, what cannot be read, and sockets and devices."""
    for path in sorted(source.iterdir()) if os.access(source, os.R_OK | os.X_OK) else ():
        copy = target / path.name
        if path in left_out:
            continue
        if path.is_symlink():
            _link(copy, str(path.readlink()))
        elif path.is_dir():
            copy.mkdir(parents=True, exist_ok=True)
            _copy(path, copy, left_out)
        elif path.is_file() and os.access(path, os.R_OK):
            copy.unlink(missing_ok=True)
            shutil.copy2(path, copy)
