"""The functions of the boot script (`steps.boot`), in sh as POSIX has it."""

from __future__ import annotations

from typing import Final

FUNCTIONS: Final = """\
failed=0
left=120 # seconds to wait for all ports together
wrong() { # WORDS: goes to the journal
\techo "trackbed: $1" >&2
\tfailed=1
}
await() { # PORT: systemd waits for it, too, but not for long; a host with many NICs may need longer
	while [ ! -e "/sys/class/net/$1" ] && [ "$left" -gt 0 ]; do
		left=$((left - 1))
		sleep 1
	done
}
put() { # FILE VALUE: a driver that has no such file has nothing to set
\t[ -e "$1" ] || return 0
\techo "$2" >"$1" || failed=1
}
vfs() { # DEVICE COUNT: a count that is not 0 can only become 0
\tif [ ! -e "$1/sriov_numvfs" ]; then
\t\twrong "$1 offers no VFs"
\t\treturn 0
\tfi
\tread -r have <"$1/sriov_numvfs" || :
\t[ "$have" = "$2" ] && return 0
\t[ "$have" = 0 ] || echo 0 >"$1/sriov_numvfs" || failed=1
\techo "$2" >"$1/sriov_numvfs" || failed=1
}
settle() { # udev loads the drivers of new VFs
\tcommand -v udevadm >/dev/null || return 0
\tudevadm settle --timeout=30 || :
}
unlike() { # on|off: the other one
\tcase $1 in on) other=off ;; *) other=on ;; esac
}
guard() { # PORT DEVICE TRUST SPOOFCHECK MTU, for all VFs; what ip(8) does not show, the driver cannot set
\tif command -v ip >/dev/null; then
\t\tshown=$(ip link show dev "$1")
\telse
\t\twrong "there is no ip(8) here: trust and spoof check of the VFs of $1 stay as the driver made them"
\t\tshown=
\tfi
\tmtu=/sys/class/net/$1/mtu have=$5
\t[ ! -e "$mtu" ] || read -r have <"$mtu" || :
\t[ "$have" -ge "$5" ] || put "$mtu" "$5" # what configures the network may come later, and a VF's is not above it
\tfor virtual in "$2"/virtfn*; do
\t\t[ -e "$virtual" ] || continue
\t\tvf=${virtual##*/virtfn}
\t\tunlike "$3"
\t\tcase $shown in *", trust $other"*) ip link set dev "$1" vf "$vf" trust "$3" || failed=1 ;; esac
\t\tunlike "$4"
\t\tcase $shown in *"spoof checking $other"*) ip link set dev "$1" vf "$vf" spoofchk "$4" || failed=1 ;; esac
\t\tfor file in "$virtual"/net/*/mtu; do put "$file" "$5"; done
\tdone
}
flat=
bridged() { # PORT OBJECT: whether its driver has DCB; one without an app table has none of it (net/dcb/dcbnl.c)
\t[ "$1" != "$flat" ] || return 1
\tif ! command -v dcb >/dev/null; then
\t\techo "trackbed: there is no dcb(8) here: $2 of $1 stays as the driver made it" >&2
\t\treturn 1
\tfi
\tdcb "$2" show dev "$1" >/dev/null 2>&1 && return 0
\t[ "$2" != app ] || flat=$1
\treturn 1
}
pfc() { # PORT PRIORITY:on|off...
\tbridged "$1" pfc || return 0
\tport=$1
\tshift
\tdcb pfc set dev "$port" prio-pfc "$@" || failed=1
}
dscp() { # PORT DSCP:PRIORITY...
\tbridged "$1" app || return 0
\tport=$1
\tshift
\tdcb app replace dev "$port" dscp-prio "$@" || failed=1
\tshown=$(dcb apptrust show dev "$port" 2>/dev/null) || return 0
\tcase $shown in *"order: dscp"*) return 0 ;; esac
\tdcb apptrust set dev "$port" order dscp || failed=1
}
ets() { # PORT PRIORITY FIRST: the class 1 is for PRIORITY, if it has none for itself; 2 for FIRST
\tbridged "$1" ets || return 0
\tpairs=$(dcb ets show dev "$1" prio-tc) mine= alone=yes count=0 first=0
\tfor pair in $pairs; do case $pair in "$2":*) mine=${pair#*:} ;; esac; done
\tfor pair in $pairs; do case $pair in "$2":*) ;; *:"$mine") alone=no ;; esac; done
\t[ "$alone" = no ] || return 0
\tfor count in $(dcb ets show dev "$1" ets-cap); do :; done
\t[ "$count" -ge 2 ] || return 0
\t[ "$count" -ge 3 ] && first=2
\tdcb ets set dev "$1" tc-tsa all:strict 0:ets 1:ets tc-bw all:0 0:50 1:50 \\
\t\tprio-tc all:0 "$3:$first" "$2:1" || failed=1
}
tos() { # RDMA-DEVICE TOS
\tbase=/sys/kernel/config/rdma_cm
\t[ -d "$base" ] || return 0
\t[ -d "$base/$1" ] || mkdir "$base/$1" 2>/dev/null || return 0
\tfor file in "$base/$1"/ports/*/default_roce_tos; do put "$file" "$2"; done
}
"""
"""Each ends with 0, so that one port's trouble does not keep the next from its settings; `failed` tells at the end."""
