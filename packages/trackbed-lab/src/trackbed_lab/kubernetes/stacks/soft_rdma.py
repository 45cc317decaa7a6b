"""What soft-RoCE lacks, for the programs of other stacks: a device's folder in sysfs, and a move between namespaces.

A soft-RoCE device has no PCI device above it, and it cannot change its network namespace (rxe: EOPNOTSUPP). Device
plugins find RDMA devices by the folder `infiniband` of a PCI device, and CNI plugins expect the RDMA device to follow
the interface. The lab therefore

    gives every VF a soft-RoCE device, as a driver of real hardware does (a udev rule),
    gives a program a view of sysfs with the folder `infiniband` of each PCI device (VIEW),
    makes the device again where a CNI plugin has put its interface (WRAPPER).

VFs' devices are called as rdma-core would call them (rdma_rename, NAME_PCI), so scripts find them by PCI address. All
runs that make or delete devices hold one lock: a device that is made again then gets the same uverbs file, as it is the
only free one, and what the device plugin has told kubelet stays right.
"""

from collections.abc import Mapping

from trackbed_lab.vm.furnish import ServerFile

_LOCK = "/run/soft-roce"
_FOLDER = "etc/trackbed-lab"
_SCRIPT = f"{_FOLDER}/soft-roce-vf"

_NAMES = "/run/soft-rdma-names"
"""Names of the devices that are in pods, by PCI address."""

NAME = f"""\
name() {{ # PCI address -> name of its RDMA device: as recorded, by rdma-core's rule, or of the node GUID of its MAC
    [ ! -f "{_NAMES}/$1" ] || {{ cat "{_NAMES}/$1"; return; }}
    bus=${{1#*:}}; slot=${{bus#*:}}; function=${{slot#*.}}; slot=${{slot%.*}}; bus=${{bus%%:*}}
    case $slot.$function in
        00.0) rdma="rocep$((0x$bus))s0" ;;
        *) rdma="rocep$((0x$bus))s$((0x$slot))f$function" ;;
    esac
    [ -e "/sys/class/infiniband/$rdma" ] || for address in /sys/bus/pci/devices/$1/net/*/address; do
        [ -f "$address" ] || continue
        IFS=: read -r a b c d e f <"$address"
        guid=$(printf %02x%s:%sff:fe%s:%s%s $((0x$a ^ 2)) "$b" "$c" "$d" "$e" "$f")
        path=$(grep -l "$guid" /sys/class/infiniband/*/node_guid | head -n 1)
        [ -z "$path" ] || {{ path=${{path%/*}}; rdma=${{path##*/}}; }}
    done
    echo "$rdma"
}}
"""

_MAKE = f"""#!/bin/sh
# Creates the soft-RoCE device of a VF: $1 its interface, $2 its PCI address. None may lack: the next one that is made
# would take its uverbs file. The kernel takes a former device of the name away a moment after its interface has gone.
{NAME}
echo $$ >/sys/fs/cgroup/cgroup.procs # sockets of udev's cgroup may not send over IP, and the device would have such
exec 9>{_LOCK} && flock 9
for try in $(seq 50); do
    rdma link show "$(name "$2")/1" >/dev/null 2>&1 && exit
    rdma link add "$(name "$2")" type rxe netdev "$1" && exit
    sleep 0.1
done
"""
_RULE = f'ACTION=="add", SUBSYSTEM=="net", SUBSYSTEMS=="pci", DRIVERS=="igbvf", RUN+="/{_SCRIPT} $name $id"\n'

VIEW = f"""#!/bin/sh
# Runs "$@" with a view of sysfs in which each PCI device with a soft-RoCE device has a folder `infiniband`.
# overlayfs takes no colon in lowerdir, so the real folder is first bound to a path without one.
{NAME}
for path in /sys/bus/pci/devices/*; do
    [ "$(cat "$path/class")" = 0x020000 ] || continue
    rdma=$(name "${{path##*/}}")
    [ -e "/sys/class/infiniband/$rdma" ] || continue
    device=$(readlink -f "$path")
    flat=/run/soft-rdma/$rdma
    mkdir -p "$flat/made/infiniband/$rdma" "$flat/real"
    mount --bind "$device" "$flat/real" || exit 1
    mount -t overlay -o "ro,lowerdir=$flat/made:$flat/real" none "$device" || exit 1
    [ ! -d "$flat/real/net" ] || mount --bind "$flat/real/net" "$device/net" || exit 1
done
exec "$@"
"""

WRAPPER = f"""#!/bin/sh
# Stands for a CNI plugin: runs the real one, lab/NAME beside it, then makes the soft-RoCE device again where it is.
# A driver that runs it in its container shares neither lock nor names with the host, so it goes there first.
[ "$(readlink /proc/self/ns/mnt)" = "$(readlink /proc/1/ns/mnt)" ] || exec nsenter -t 1 -m -- "$0" "$@"
exec 9>{_LOCK} && flock 9
{NAME}
here=${{0%/*}}
request=$(cat)
pci=$(printf %s "$request" | sed -n 's/.*"\\(deviceID\\|pciBusID\\)": *"\\([0-9a-f:.]*\\)".*/\\2/p')
[ -z "$pci" ] || rdma=$(name "$pci")
answer=$(printf %s "$request" | "$here/lab/${{0##*/}}")
status=$?
[ -z "$answer" ] || printf '%s\\n' "$answer"
if [ $status = 0 ] && [ -n "$pci" ]; then
    mkdir -p {_NAMES}
    case $CNI_COMMAND in
        ADD)
            echo "$rdma" >"{_NAMES}/$pci"
            # the kernel takes the former device away a moment after its interface has moved
            for try in $(seq 50); do
                nsenter --net="$CNI_NETNS" rdma link add "$rdma" type rxe netdev "$CNI_IFNAME" && break
                sleep 0.1
            done
            ;;
        DEL)
            for path in /sys/bus/pci/devices/"$pci"/net/*; do
                [ -e "$path" ] || continue
                for try in $(seq 50); do
                    rdma link add "$rdma" type rxe netdev "${{path##*/}}" && break
                    [ "$(name "$pci")" != "$rdma" ] || [ ! -e "/sys/class/infiniband/$rdma" ] || break
                    sleep 0.1
                done
            done
            rm -f "{_NAMES}/$pci"
            ;;
    esac >>/var/log/soft-rdma.log 2>&1
fi
exit $status
"""


def render_node_files() -> Mapping[str, ServerFile]:
    """Return the files of a node that give VFs their soft-RoCE devices, by path below its root."""
    return {
        _SCRIPT: ServerFile(_MAKE, 0o755),
        "etc/udev/rules.d/91-lab-soft-roce-vf.rules": ServerFile(_RULE),
    }
