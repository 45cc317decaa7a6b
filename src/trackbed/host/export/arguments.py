"""Kernel arguments for a host that Trackbed does not run on, and a shell script that passes them to its boot loader.

    kernelstub   if /etc/kernelstub/configuration exists        kernelstub --add-options
    grubby       if boot loader entries and grubby(8) exist     grubby --update-kernel=ALL --args
    GRUB         if /etc/default/grub exists                    a drop-in of Trackbed, then update-grub or grub-mkconfig

Boot loader, files and order of arguments are those of `trackbed apply`, which then has nothing to change. The arguments
for IOMMU pass-through depend on the CPU, so the script reads /proc/cpuinfo.
(Documentation/admin-guide/kernel-parameters.txt; GNU GRUB manual 2.12, "Simple configuration handling".)
"""

from __future__ import annotations

from collections.abc import Mapping

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.kinds.arguments import IOMMU
from trackbed.host.kinds.bootloader import GRUB_FILE, OTHER_FILE, quote_for_grub
from trackbed.host.kinds.kernel_arguments import Want
from trackbed.host.setting import HEAD
from trackbed.host.steps import iter_settings

CPUS: Mapping[str, str] = {"intel": "GenuineIntel", "amd": "AuthenticAMD", "arm": "Arm"}
"""Vendor on the command line -> vendor in /proc/cpuinfo."""

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
\twords=$(echo "$words" | sed "s/[^ ]*;[^ ]*/'&'/g") # GRUB ends a command at a semicolon
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


def find_arguments(node: NodePlan) -> Want | None:
    """Return the kernel arguments of a node; None if the plan has none."""
    wants = (setting.want for setting in iter_settings(node, ("cmdline",)))
    return next((want for want in wants if isinstance(want, Want) and (want.groups or want.iommu)), None)


def render_line(wanted: Want, vendor: str) -> str:
    """Render all arguments as one line for a CPU of this vendor (a key of `IOMMU`)."""
    return " ".join((*(IOMMU[vendor] if wanted.iommu else ()), *wanted.groups))


def render_script(wanted: Want) -> str:
    """Render a sh(1) script, for root, that passes the arguments to the boot loader of the machine it runs on."""
    sizes = sum(group.startswith("hugepagesz=") for group in wanted.groups)
    return "set -eu\n" + _SCRIPT.format(
        words=f"'{' '.join(wanted.groups)}'",
        one_size="no" if sizes > 1 else "yes",
        iommu=_render_iommu_cases() if wanted.iommu else "",
        head=f"'{HEAD.strip()}'",
        other=OTHER_FILE,
        grub=GRUB_FILE,
    )


def render_grub_file(words: str) -> str:
    """Render GRUB's drop-in with these arguments, as grub-mkconfig reads it."""
    return f"{HEAD}{render_grub_line(words)}\n"


def render_grub_line(words: str) -> str:
    """Render the line of GRUB's drop-in that appends these arguments to GRUB_CMDLINE_LINUX_DEFAULT."""
    quoted = " ".join(map(quote_for_grub, words.split()))
    return f'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT {quoted}"'


def _render_iommu_cases() -> str:
    cases = "".join(f"{vendor}) iommu='{' '.join(words)}' ;;\n" for vendor, words in IOMMU.items())
    return _VENDOR.format(cases=cases)
