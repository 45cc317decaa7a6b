"""Netlink messages packed and parsed; imports nothing of Trackbed."""
