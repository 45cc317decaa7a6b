"""Netlink messages to the kernel, and probes of the network (ARP, ICMP, LLDP, UDP)."""
