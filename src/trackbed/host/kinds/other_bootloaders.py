"""Boot loaders that Trackbed recognizes and does not configure: what the owner of the machine does instead.

ostree         rpm-ostree(1), kargs; its entries have the name and format of those that grubby edits, who knows no
deployments (OpenShift: a MachineConfig has kernelArguments)
systemd-boot   kernel-install(8): entries are written from /etc/kernel/cmdline; SUSE's sdbootutil does the same
GRUB           without drop-ins: only Debian's and Ubuntu's grub-mkconfig reads /etc/default/grub.d
extlinux       of U-Boot boards and syslinux(1)
zipl           of s390-tools, zipl.conf(5)
"""

from __future__ import annotations

from typing import NamedTuple

from trackbed.host.machine import Machine

_EFI = ("/boot/efi", "/efi", "/boot")


class OtherLoader(NamedTuple):
    """A boot loader, the files that are only there with it, and what to do with the arguments."""

    name: str
    signs: tuple[str, ...]
    advice: str


LOADERS = (
    OtherLoader(
        "ostree",
        ("/run/ostree-booted", "/ostree/repo"),
        "run rpm-ostree kargs --append-if-missing=ARGUMENT for each; on OpenShift, name them in a MachineConfig",
    ),
    OtherLoader(
        "systemd-boot",
        tuple(f"{folder}/EFI/systemd" for folder in _EFI),
        "add them to /etc/kernel/cmdline, and write the entries again: reinstall-kernels, kernel-install add-all, or"
        " sdbootutil update-all-entries",
    ),
    OtherLoader(
        "GRUB without /etc/default/grub.d",
        ("/etc/default/grub",),
        "add them to GRUB_CMDLINE_LINUX_DEFAULT in /etc/default/grub, then run grub2-mkconfig -o /boot/grub2/grub.cfg",
    ),
    OtherLoader("extlinux", ("/boot/extlinux/extlinux.conf",), "add them to `append` in /boot/extlinux/extlinux.conf"),
    OtherLoader("zipl", ("/etc/zipl.conf",), "add them to `parameters` in /etc/zipl.conf, then run zipl"),
)

UNKNOWN = OtherLoader(
    "a boot loader that Trackbed does not know",
    (),
    "add them where this machine gets its kernel from; for a network boot, on its boot server",
)


def find_other_loader(machine: Machine) -> OtherLoader:
    """Return the boot loader of a machine that has none that Trackbed configures."""
    return next((loader for loader in LOADERS if is_present(machine, loader)), UNKNOWN)


def is_present(machine: Machine, loader: OtherLoader) -> bool:
    """Return whether the machine has a file of a boot loader."""
    return any(machine.locate(sign).exists() for sign in loader.signs)
