"""Scripts for VFs of emulated servers: one without a set MAC address, and drivers that are loaded again."""

import shlex
from collections.abc import Sequence

from trackbed_lab.vm.switch import REFUSED_SECONDS

_ADDRESS = "198.18.0.{number}"
"""From the range for benchmarks (RFC 2544), which no Fabric of the lab plans."""
_MAC = "0e:54:42:00:00:{number:02x}"
_NAMESPACE = "trial"
_SECONDS = 60

PING = f"ip netns exec {_NAMESPACE} ping -c 4 -i 0.5 -W 2 {_ADDRESS.format(number=2)}"


def render_setup(pci: str, number: int, *, set_mac: bool) -> str:
    """Return a script that makes a VF of a port, with an address in a namespace, and waits for its carrier."""
    address = f"""ip link set "$port" vf 0 mac {_MAC.format(number=number + 1)}
echo "$pci" >/sys/bus/pci/drivers/igbvf/unbind
echo "$pci" >/sys/bus/pci/drivers/igbvf/bind
udevadm settle --timeout=30"""
    return f"""set -e
cd /sys/bus/pci/devices/{pci}
port=$(ls net)
ip link set "$port" up
echo 1 >sriov_numvfs
udevadm settle --timeout=30
pci=$(basename "$(readlink -f virtfn0)")
{address if set_mac else ""}
ip netns add {_NAMESPACE}
ip link set "$(ls virtfn0/net)" netns {_NAMESPACE} name vf0
ip -n {_NAMESPACE} address add {_ADDRESS.format(number=number + 1)}/24 dev vf0
ip -n {_NAMESPACE} link set vf0 up
for try in $(seq {_SECONDS}); do
    [ "$(ip netns exec {_NAMESPACE} cat /sys/class/net/vf0/carrier 2>/dev/null)" = 1 ] && break
    [ "$try" = {_SECONDS} ] && {{ echo "the VF has no carrier"; exit 1; }}
    sleep 1
done
{_render_report_wait(reported=not set_mac)}"""


def _render_report_wait(*, reported: bool) -> str:
    """Return a script that waits until the recorder reports the VF's address, or no longer, and the switch knows."""
    return f"""mac=$(ip netns exec {_NAMESPACE} cat /sys/class/net/vf0/address)
for try in $(seq {_SECONDS}); do
    {"" if reported else "! "}grep -q "$mac" /run/own/spoof.json && sleep {2 * REFUSED_SECONDS} && exit 0
    sleep 0.5
done
echo "the recorder of VFs {"does not report" if reported else "still reports"} $mac"
exit 1
"""


def render_cleanup(pci: str) -> str:
    """Return a script that takes the VF away and leaves the port as it was."""
    return f"""cd /sys/bus/pci/devices/{pci}
ip netns delete {_NAMESPACE}
echo 0 >sriov_numvfs
ip link set "$(ls net)" down
"""


def render_reload(netdevs: Sequence[str], compare: Sequence[str]) -> str:
    """Return a script that loads the NICs' drivers again, and waits until udev has had the ports' units run again.

    `compare` is a command that succeeds once everything is as planned; the network's program needs a while, too.
    """
    units = " ".join(f"trackbed-port@{name}.service" for name in netdevs)
    return f"""active() {{ systemctl is-active {units} | grep -cx active; }}
modprobe -r igbvf
modprobe -r igb || exit 1
for try in $(seq {_SECONDS}); do [ "$(active)" = 0 ] && break; sleep 1; done
[ "$(active)" = 0 ] || {{ echo "the units outlived their ports"; exit 1; }}
modprobe igb
for try in $(seq {2 * _SECONDS}); do [ "$(active)" = {len(netdevs)} ] && break; sleep 1; done
[ "$(active)" = {len(netdevs)} ] || {{ systemctl status --no-pager {units} | grep Active; exit 1; }}
udevadm settle --timeout=60
{render_comparison(compare)}"""


def render_comparison(compare: Sequence[str]) -> str:
    """Return a script that waits until `compare` succeeds; else it prints the differences and ends with status 1."""
    return f"""for try in $(seq 12); do {shlex.join(compare)} >/run/compared 2>&1 && exit 0; sleep 2; done
grep "^[-+~]" /run/compared | head -n 4 | grep . || tail -n 4 /run/compared
exit 1
"""
