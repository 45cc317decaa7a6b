"""Leaf switches: the configuration that a Plan implies, and comparison with real configurations. No switch is changed.

wiring       inputs besides the plan: ports, uplinks, AS numbers, VLANs
leaf         Plan and Wiring -> leaves
dialect      the functions of a network operating system
dialects     the registry of network operating systems
nvue, sonic  leaf -> commands or tables; configuration -> settings of its ports
comparison   leaf and settings -> mismatches
"""
