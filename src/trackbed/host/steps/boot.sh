#!/bin/sh
failed=0
left=120 # seconds to wait for all ports together
wrong() { # WORDS: goes to the journal
	echo "trackbed: $1" >&2
	failed=1
}
await() { # PORT: systemd waits for it, too, but not for long; a host with many NICs may need longer
	while [ ! -e "/sys/class/net/$1" ] && [ "$left" -gt 0 ]; do
		left=$((left - 1))
		sleep 1
	done
}
put() { # FILE VALUE: a driver that has no such file has nothing to set
	[ -e "$1" ] || return 0
	echo "$2" >"$1" || failed=1
}
vfs() { # DEVICE COUNT: a count that is not 0 can only become 0
	if [ ! -e "$1/sriov_numvfs" ]; then
		wrong "$1 offers no VFs"
		return 0
	fi
	read -r have <"$1/sriov_numvfs" || :
	[ "$have" = "$2" ] && return 0
	[ "$have" = 0 ] || echo 0 >"$1/sriov_numvfs" || failed=1
	echo "$2" >"$1/sriov_numvfs" || failed=1
}
settle() { # udev loads the drivers of new VFs
	command -v udevadm >/dev/null || return 0
	udevadm settle --timeout=30 || :
}
unlike() { # on|off: the other one
	case $1 in on) other=off ;; *) other=on ;; esac
}
guard() { # PORT DEVICE TRUST SPOOFCHECK MTU, for all VFs; what ip(8) does not show, the driver cannot set
	if command -v ip >/dev/null; then
		shown=$(ip link show dev "$1")
	else
		wrong "there is no ip(8) here: trust and spoof check of the VFs of $1 stay as the driver made them"
		shown=
	fi
	mtu=/sys/class/net/$1/mtu have=$5
	[ ! -e "$mtu" ] || read -r have <"$mtu" || :
	[ "$have" -ge "$5" ] || put "$mtu" "$5" # what configures the network may come later, and a VF's is not above it
	for virtual in "$2"/virtfn*; do
		[ -e "$virtual" ] || continue
		vf=${virtual##*/virtfn}
		unlike "$3"
		case $shown in *", trust $other"*) ip link set dev "$1" vf "$vf" trust "$3" || failed=1 ;; esac
		unlike "$4"
		case $shown in *"spoof checking $other"*) ip link set dev "$1" vf "$vf" spoofchk "$4" || failed=1 ;; esac
		for file in "$virtual"/net/*/mtu; do put "$file" "$5"; done
	done
}
flat=
bridged() { # PORT OBJECT: whether its driver has DCB; one without an app table has none of it (net/dcb/dcbnl.c)
	[ "$1" != "$flat" ] || return 1
	if ! command -v dcb >/dev/null; then
		echo "trackbed: there is no dcb(8) here: $2 of $1 stays as the driver made it" >&2
		return 1
	fi
	dcb "$2" show dev "$1" >/dev/null 2>&1 && return 0
	[ "$2" != app ] || flat=$1
	return 1
}
pfc() { # PORT PRIORITY:on|off...
	bridged "$1" pfc || return 0
	port=$1
	shift
	dcb pfc set dev "$port" prio-pfc "$@" || failed=1
}
dscp() { # PORT DSCP:PRIORITY...
	bridged "$1" app || return 0
	port=$1
	shift
	dcb app replace dev "$port" dscp-prio "$@" || failed=1
	shown=$(dcb apptrust show dev "$port" 2>/dev/null) || return 0
	case $shown in *"order: dscp"*) return 0 ;; esac
	dcb apptrust set dev "$port" order dscp || failed=1
}
ets() { # PORT PRIORITY FIRST: the class 1 is for PRIORITY, if it has none for itself; 2 for FIRST
	bridged "$1" ets || return 0
	pairs=$(dcb ets show dev "$1" prio-tc) mine='' alone=yes count=0 first=0
	for pair in $pairs; do case $pair in "$2":*) mine=${pair#*:} ;; esac; done
	for pair in $pairs; do case $pair in "$2":*) ;; *:"$mine") alone=no ;; esac; done
	[ "$alone" = no ] || return 0
	for count in $(dcb ets show dev "$1" ets-cap); do :; done
	[ "$count" -ge 2 ] || return 0
	[ "$count" -ge 3 ] && first=2
	dcb ets set dev "$1" tc-tsa all:strict 0:ets 1:ets tc-bw all:0 0:50 1:50 \
		prio-tc all:0 "$3:$first" "$2:1" || failed=1
}
tos() { # RDMA-DEVICE TOS
	base=/sys/kernel/config/rdma_cm
	[ -d "$base" ] || return 0
	[ -d "$base/$1" ] || mkdir "$base/$1" 2>/dev/null || return 0
	for file in "$base/$1"/ports/*/default_roce_tos; do put "$file" "$2"; done
}
