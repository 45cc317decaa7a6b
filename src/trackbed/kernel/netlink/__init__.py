"""Netlink messages and sockets; nothing else of Trackbed is imported here."""
