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
misnamed() { # PORT PCI: another device has its name, and VFs must not get their addresses through that one
	device=$(readlink -f "/sys/class/net/$1/device") || return 1
	case $device/ in */"$2"/*) return 1 ;; esac
	wrong "$1 is ${device##*/} and not $2: its VFs and QoS stay as they are; trackbed doctor says why"
}
put() { # FILE VALUE: a driver that has no such file has nothing to set
	[ -e "$1" ] || return 0
	echo "$2" >"$1" || [ ! -e "$1" ] || failed=1
}
fit() { # FUNCTION MTU: udev may give its interface another name between the look at it and the write
	for _ in 1 2 3 4 5; do
		for file in "$1"/net/*/mtu; do put "$file" "$2"; done
		[ ! -e "$file" ] || return 0
		present "$1"/net/* || return 0
	done
}
up() { # PORT: bnxt_en makes no VFs on a port that is down, and igb answers none of them
	command -v ip >/dev/null || return 0
	ip link set dev "$1" up || failed=1
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
	read -r have <"$1/sriov_numvfs" || :
	[ "$have" = "$2" ] || wrong "$1 has $have VFs and not $2: its driver ignored the count; is its port up?"
}
settle() { # udev loads the drivers of new VFs
	command -v udevadm >/dev/null || return 0
	udevadm settle --timeout=30 || :
}
show() { # PORT: what ip(8) shows of its VFs
	if command -v ip >/dev/null; then
		shown=$(ip link show dev "$1")
	else
		wrong "there is no ip(8) here: addresses, trust and spoof check of the VFs of $1 stay as the driver made them"
		shown=
	fi
}
line() { # VF: its line of what ip(8) has shown
	entry=${shown#*"vf $1 "}
	[ "$entry" != "$shown" ] || return 1
	entry=${entry%%"
"*}
}
renew() { # FUNCTION: its driver is bound again, which reads the address anew; udev may still be loading it
	pci=$(readlink -f "$1")
	pci=${pci##*/}
	[ ! -e "$1/driver" ] || echo "$pci" >"$1/driver/unbind" || failed=1
	echo "$pci" >/sys/bus/pci/drivers_probe || failed=1
	until present "$1"/net/* || [ "$left" -le 0 ]; do
		left=$((left - 1))
		sleep 1
	done
	present "$1"/net/* || wrong "$pci has no interface after its driver was bound"
}
present() { # FILE...: the first of a pattern is there
	[ -e "$1" ]
}
idle() { # FUNCTION: no pod and no virtual machine has it
	[ -e "$1" ] || return 1
	[ ! -e "$1/driver" ] || present "$1"/net/*
}
address() { # PORT DEVICE VF ADDRESS: set through the port (show PORT comes first), read by the driver when it is bound
	idle "$2/virtfn$3" || return 0
	case $4 in
	????:*) guid "$@" ;;
	*) mac "$@" ;;
	esac
}
mac() { # PORT DEVICE VF ADDRESS
	line "$3" || return 0
	used=
	for file in "$2/virtfn$3"/net/*/address; do [ ! -e "$file" ] || read -r used <"$file" || :; done
	case $entry in
	*"$4"*) [ "$used" != "$4" ] || return 0 ;;
	*) ip link set dev "$1" vf "$3" mac "$4" || failed=1 ;;
	esac
	renew "$2/virtfn$3"
}
guid() { # PORT DEVICE VF GUID: of the node and the port; the VF's link follows the port's
	used=
	for file in "$2/virtfn$3"/infiniband/*/node_guid; do [ ! -e "$file" ] || read -r used <"$file" || :; done
	if [ "$used" = "$4" ] || [ -z "$shown" ]; then return 0; fi
	long=$(echo "$4" | sed 's/://g;s/../&:/g;s/:$//') # ip(8) reads pairs of digits
	ip link set dev "$1" vf "$3" node_guid "$long" || failed=1
	ip link set dev "$1" vf "$3" port_guid "$long" || failed=1
	ip link set dev "$1" vf "$3" state auto || failed=1
	renew "$2/virtfn$3"
}
managed() { # PORT: systemd-networkd waits 25 s for the kernel, which VFs can keep busy for longer, and then gives a port up
	command -v networkctl >/dev/null || return 0
	known "$1"
	while [ "$known" = pending ] || [ "$known" = initialized ]; do
		[ "$left" -gt 0 ] || break
		left=$((left - 1))
		sleep 1
		known "$1"
	done
	[ "$known" = failed ] || return 0
	echo "trackbed: systemd-networkd failed to configure $1 while its VFs were made, and is asked again" >&2
	networkctl reconfigure "$1" || failed=1
}
known() { # PORT: its state in systemd-networkd, the last column; "unmanaged" where that does not run
	known=
	for known in $(networkctl --no-legend --no-pager list "$1" 2>/dev/null); do :; done
}
unlike() { # on|off: the other one
	case $1 in on) other=off ;; *) other=on ;; esac
}
guard() { # PORT DEVICE TRUST SPOOFCHK MTU, for all VFs (show PORT comes first); what is not shown cannot be set
	mtu=/sys/class/net/$1/mtu have=$5
	[ ! -e "$mtu" ] || read -r have <"$mtu" || :
	[ "$have" -ge "$5" ] || put "$mtu" "$5" # what configures the network may come later, and a VF's is not above it
	for virtual in "$2"/virtfn*; do
		[ -e "$virtual" ] || continue
		vf=${virtual##*/virtfn}
		line "$vf" || entry=
		unlike "$3"
		case $entry in *", trust $other"*) ip link set dev "$1" vf "$vf" trust "$3" || failed=1 ;; esac
		unlike "$4"
		case $entry in *"spoof checking $other"*) ip link set dev "$1" vf "$vf" spoofchk "$4" || failed=1 ;; esac
		fit "$virtual" "$5"
	done
}
verbs() { # PORT: mlx5_ib, bnxt_re and irdma make its RDMA device some time after its interface
	device=/sys/class/net/$1/device
	present "$device"/*.rdma.* || present "$device"/*.roce.* || return 0
	until present "$device"/infiniband/* || [ "$left" -le 0 ]; do
		left=$((left - 1))
		sleep 1
	done
}
flat='' tabled=''
bridged() { # PORT OBJECT: whether its driver has DCB; one without an app table has none of it (net/dcb/dcbnl.c)
	[ "$1" != "$flat" ] || return 1
	if ! command -v dcb >/dev/null; then
		echo "trackbed: there is no dcb(8) here: $2 of $1 stays as the driver made it" >&2
		return 1
	fi
	if [ "$1" != "$tabled" ] && ! dcb app show dev "$1" >/dev/null 2>&1; then
		flat=$1
		return 1
	fi
	tabled=$1
	[ "$2" = app ] || dcb "$2" show dev "$1" >/dev/null 2>&1
}
driver() { # PORT
	driver=$(readlink "/sys/class/net/$1/device/driver") || driver=
	driver=${driver##*/}
}
capacity() { # PORT: the number of its traffic classes
	count=0
	for count in $(dcb ets show dev "$1" ets-cap); do :; done
}
dcbx() { # PORT: mlx5 lets the host take over from its firmware
	driver "$1"
	[ "$driver" = mlx5_core ] || return 0
	bridged "$1" dcbx || return 0
	case $(dcb dcbx show dev "$1") in *host*) return 0 ;; esac
	dcb dcbx set dev "$1" host ieee || failed=1
}
ets() { # PORT PRIORITY FIRST: the class 1 is for PRIORITY, if it has none for itself; 2 for FIRST
	bridged "$1" ets || return 0
	driver "$1"
	[ "$driver" != ice ] || return 0
	pairs=$(dcb ets show dev "$1" prio-tc) mine='' alone=yes first=0
	for pair in $pairs; do case $pair in "$2":*) mine=${pair#*:} ;; esac; done
	for pair in $pairs; do case $pair in "$2":*) ;; *:"$mine") alone=no ;; esac; done
	[ "$alone" = no ] || return 0
	capacity "$1"
	[ "$count" -ge 2 ] || return 0
	[ "$count" -ge 3 ] && first=2
	dcb ets set dev "$1" tc-tsa all:strict 0:ets 1:ets tc-bw all:0 0:50 1:50 \
		prio-tc all:0 "$3:$first" "$2:1" || failed=1
}
pfc() { # PORT PRIORITY:on|off...
	bridged "$1" pfc || return 0
	port=$1
	shift
	dcb pfc set dev "$port" prio-pfc "$@" || failed=1
}
dscp() { # PORT RDMA-DSCP:PRIORITY [NOTICES-DSCP:PRIORITY]
	bridged "$1" app || return 0
	driver "$1"
	notices=${3#*:}
	if [ "$driver" = ice ] && [ "$notices" ]; then # a priority is a class there
		capacity "$1"
		[ "$notices" -lt "$count" ] || notices=$((count - 1))
		[ "$notices" != "${2#*:}" ] || [ "${3#*:}" = "$notices" ] || notices=$((notices - 1))
	fi
	dcb app replace dev "$1" dscp-prio "$2" ${3:+"${3%:*}:$notices"} || failed=1
	mapped=$(dcb -N app show dev "$1" dscp-prio) # replace succeeds also where the driver refuses (dcb_cmd_app_replace)
	for pair in "$2" ${3:+"${3%:*}:$notices"}; do
		case "$mapped " in
		*" $pair "*) ;;
		*) echo "trackbed: the driver of $1 does not map DSCP ${pair%:*} to priority ${pair#*:}" >&2 && failed=1 ;;
		esac
	done
	shown=$(dcb apptrust show dev "$1" 2>/dev/null) || shown='order: dscp'
	case $shown in *"order: dscp"*) ;; *) dcb apptrust set dev "$1" order dscp || failed=1 ;; esac
	[ "$driver" = ice ] || return 0 # its first DSCP gave all bandwidth to class 0
	dcb ets set dev "$1" tc-tsa all:ets tc-bw all:0 0:40 "${notices:-0}:10" "${2#*:}:50" || failed=1
}
tos() { # PORT TOS: of its RDMA device; that of soft-RoCE names its interface among its GIDs
	for device in "/sys/class/net/$1/device"/infiniband/*; do traffic "$device" "$2"; done
	for file in /sys/class/infiniband/*/ports/1/gid_attrs/ndevs/0; do
		interface=
		[ ! -e "$file" ] || read -r interface <"$file" || :
		[ "$interface" != "$1" ] || [ -e "/sys/class/net/$1/device/infiniband" ] || traffic "${file%/ports/*}" "$2"
	done
}
traffic() { # RDMA-DEVICE TOS
	base=/sys/kernel/config/rdma_cm
	if [ ! -e "$1" ] || [ ! -d "$base" ]; then return 0; fi
	[ -d "$base/${1##*/}" ] || mkdir "$base/${1##*/}" 2>/dev/null || return 0
	for file in "$base/${1##*/}"/ports/*/default_roce_tos; do put "$file" "$2"; done
}
