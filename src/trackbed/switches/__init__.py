"""Leaf switches: their configuration as a Plan implies it, and checks of real configurations. No switch is changed.

wiring       inputs besides the plan: ports, uplinks, numbers
leaf         Plan and Wiring -> leaves
dialect      what a network operating system offers;   dialects   the registry of systems
nvue, sonic  leaf -> commands or tables;               configuration -> settings of its ports
comparison   leaf and settings -> mismatches
"""
