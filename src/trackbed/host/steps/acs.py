"""Step acs: the PCIe bridges between NIC and GPU do not redirect their traffic, now and at each boot.

    /etc/trackbed/acs.sh                                          clears the bits with setpci(8) on the bridges it finds
    /etc/systemd/system/trackbed-acs.service                      runs it once at each boot
    /etc/systemd/system/multi-user.target.d/91-trackbed-acs.conf  makes each boot want it (systemd.unit(5), drop-ins)

Wanted where the Fabric has `bios.acs: disabled`. With ACS redirects on, GPUDirect goes through the root complex and the
IOMMU, which halves its bandwidth or breaks it. VFs in virtual machines need ACS for their isolation, containers do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.kinds import acs, file
from trackbed.host.setting import HEAD, Setting
from trackbed.host.snapshot.pci import ACS_REDIRECTS

STEP = "acs"
HAS_FILES = True

_SYSTEMD = ("/usr/lib/systemd/system/multi-user.target", "/lib/systemd/system/multi-user.target")
_LACK = "there is no systemd here"

_SCRIPT = """\
failed=0
devices=/sys/bus/pci/devices
gpus() {{ # in bus order, in which drivers number them
	for folder in "$devices"/*; do
		[ -e "$folder/class" ] || continue
		read -r vendor <"$folder/vendor"
		read -r class <"$folder/class"
		case $vendor:${{class%??}} in {gpus}) echo "${{folder##*/}}" ;; esac
	done
}}
above() {{ # PCI: the bridges above a function
	readlink -f "$devices/$1" | tr / '\\n' | sed -n '$!s/^[0-9a-f]*:..:..\\.[0-7]$/&/p'
}}
direct() {{ # PCI GPU...: clears the redirects of the bridges that are above one of both, not of both
	port=$1
	shift
	[ -e "$devices/$port" ] || return 0
	read -r vendor <"$devices/$port/vendor"
	read -r device <"$devices/$port/device"
	case $vendor:$device in {combined}) return 0 ;; esac
	for number; do
		gpu=$(gpus | sed -n "$((number + 1))p")
		[ "$gpu" ] || continue
		for bridge in $({{ above "$port" && above "$gpu"; }} | sort | uniq -u); do
			setpci -s "$bridge" ECAP_ACS+0x6.w >/dev/null 2>&1 || continue # it has no ACS
			setpci -s "$bridge" ECAP_ACS+0x6.w={clear} || failed=1
		done
	done
}}
command -v setpci >/dev/null || {{
	echo "trackbed: there is no setpci here (package pciutils): ACS stays as the kernel set it" >&2
	exit 1
}}
"""

_UNIT = """[Unit]
Description=PCIe bridges between NIC and GPU send directly
Before=kubelet.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh {script}
"""


def iter_settings(node: NodePlan) -> Iterator[Setting]:
    """Yield the bridges of each port and the files for each boot; nothing unless the Fabric turns ACS off."""
    wants = [acs.Want(port.netdev, port.pci, port.gpus) for port in node.ports if port.pci and port.gpus]
    if node.common.acs != "disabled" or not wants:
        return
    for port, want in zip((port for port in node.ports if port.pci and port.gpus), wants):
        yield Setting(STEP, want, port.rail, "traffic between NIC and GPU must not go up to the CPU")
    reason = "the kernel sets ACS anew at each boot"
    script = f"#!/bin/sh\n{HEAD}{_render_functions()}{''.join(map(_render_call, wants))}exit $failed\n"
    yield Setting(STEP, file.Want(file.ACS_SCRIPT, script, _SYSTEMD, _LACK, mode=0o755), None, reason)
    unit = HEAD + _UNIT.format(script=file.ACS_SCRIPT)
    yield Setting(STEP, file.Want(file.ACS_UNIT, unit, _SYSTEMD, _LACK), None, reason)
    drop_in, reload_ = f"{HEAD}[Unit]\nWants=trackbed-acs.service\n", ("systemctl", "daemon-reload")
    yield Setting(STEP, file.Want(file.ACS_WANTED, drop_in, _SYSTEMD, _LACK, reload_command=reload_), None, reason)


def _render_functions() -> str:
    return _SCRIPT.format(
        gpus=" | ".join(acs.GPU_CLASSES),
        combined=" | ".join(acs.COMBINED_SWITCHES),
        clear=f"0000:{ACS_REDIRECTS:04x}",
    )


def _render_call(want: acs.Want) -> str:
    return f"direct {quote(want.pci)} {' '.join(map(str, want.gpus))}\n"
