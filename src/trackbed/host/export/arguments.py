"""Kernel arguments for a host that Trackbed does not run on: which, and a shell script that gives them to its loader.

    kernelstub   /etc/kernelstub/configuration is there        kernelstub --add-options
    grubby       boot loader entries and grubby(8) are there   grubby --update-kernel=ALL --args
    GRUB         /etc/default/grub is there                    a drop-in of ours, then update-grub or grub-mkconfig

The same choice, the same files and the same order of words as `trackbed apply`, which finds nothing left to do.
How the IOMMU is put in pass-through depends on the CPU, so the script asks /proc/cpuinfo.
(Documentation/admin-guide/kernel-parameters.txt; GNU GRUB manual 2.12, "Simple configuration handling".)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.kinds import kernel_arguments
from trackbed.host.kinds.arguments import IOMMU
from trackbed.host.kinds.bootloader import GRUB_FILE, OTHER_FILE
from trackbed.host.setting import HEAD
from trackbed.host.steps import list_settings

CPUS: Mapping[str, str] = {"intel": "GenuineIntel", "amd": "AuthenticAMD", "arm": "Arm"}
"""Name of a vendor on the command line -> vendor in /proc/cpuinfo."""

_SCRIPT = """\
words={words}
one_size={one_size}
{iommu}\
plain() {{ # one file says which arguments are ours
\t[ "$one_size" = yes ] || {{
\t\techo "trackbed: $1 cannot tell several hugepages= apart; pass by hand: $words" >&2
\t\texit 1
\t}}
\tmkdir -p /etc/trackbed
\tprintf '%s\\n%s\\n' {head} "$words" >{other}
}}
if [ -f /etc/kernelstub/configuration ]; then
\tplain kernelstub
\tkernelstub --add-options "$words"
elif ls /boot/loader/entries/*.conf >/dev/null 2>&1 && command -v grubby >/dev/null; then
\tplain grubby
\tgrubby --update-kernel=ALL --args="$words"
elif [ -f /etc/default/grub ]; then
\tmkdir -p /etc/default/grub.d
\tprintf '%s\\nGRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT %s"\\n' {head} "$words" >{grub}
\tif command -v update-grub >/dev/null; then
\t\tupdate-grub
\telif [ -d /boot/grub2 ]; then
\t\tgrub2-mkconfig -o /boot/grub2/grub.cfg
\telse
\t\tgrub-mkconfig -o /boot/grub/grub.cfg
\tfi
else
\techo "trackbed: no boot loader known here (GRUB, grubby, kernelstub); pass by hand: $words" >&2
\texit 1
fi
"""

_VENDOR = """\
case $(sed -n 's/^vendor_id[[:blank:]]*: *//p; s/^CPU implementer.*/Arm/p' /proc/cpuinfo | sed q) in
{cases}*)
\techo "trackbed: /proc/cpuinfo does not say whose CPU this is, and each has its own IOMMU switch" >&2
\texit 1
\t;;
esac
words="$iommu${{words:+ $words}}"
"""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The kernel arguments of one node; `iommu`: the IOMMU's arguments precede `groups`."""

    groups: tuple[str, ...]
    iommu: bool

    def to_line(self, vendor: str) -> str:
        """Return all arguments as one line for a CPU of this vendor (a key of `IOMMU`)."""
        return " ".join((*(IOMMU[vendor] if self.iommu else ()), *self.groups))


def find_arguments(node: NodePlan) -> Arguments | None:
    """Return the kernel arguments of a node; None where the plan has none."""
    for setting in list_settings(node, ("cmdline",)):
        want = setting.want
        if isinstance(want, kernel_arguments.Want) and (want.groups or want.iommu):
            return Arguments(want.groups, want.iommu)
    return None


def render_script(wanted: Arguments) -> str:
    """Render a sh(1) script, for root, that passes the arguments to the boot loader of the machine it runs on."""
    sizes = sum(group.startswith("hugepagesz=") for group in wanted.groups)
    return "set -eu\n" + _SCRIPT.format(
        words=f"'{' '.join(wanted.groups)}'",
        one_size="no" if sizes > 1 else "yes",
        iommu=_render_vendor() if wanted.iommu else "",
        head=f"'{HEAD.strip()}'",
        other=OTHER_FILE,
        grub=GRUB_FILE,
    )


def render_grub_file(words: str) -> str:
    """Render GRUB's drop-in with these arguments, as grub-mkconfig reads it."""
    return f"{HEAD}{render_grub_line(words)}\n"


def render_grub_line(words: str) -> str:
    """Render the assignment in the drop-in."""
    return f'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT {words}"'


def _render_vendor() -> str:
    cases = "".join(f"{vendor}) iommu='{' '.join(words)}' ;;\n" for vendor, words in IOMMU.items())
    return _VENDOR.format(cases=cases)
