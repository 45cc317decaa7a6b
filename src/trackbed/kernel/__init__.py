"""The machine's two wires: netlink messages to the kernel, and probes of the network (ARP, ICMP, LLDP)."""
