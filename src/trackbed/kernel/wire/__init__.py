"""Probes of the network: duplicate addresses, reachability, path MTU, neighbours."""
