"""Leaf switches: their configuration as a Plan implies it, and checks of real configurations. No switch is changed.

    wiring       inputs besides the plan: ports, uplinks, numbers
    leaf         Plan and Wiring -> leaves
    nvue         leaf -> commands of Cumulus Linux;   nvue_read   configuration -> settings of its ports
    sonic        leaf -> config_db.json of SONiC;     sonic_read  likewise
    comparison   leaf and settings -> mismatches;     dialect     the two systems, and detection of a file's system

Another network operating system needs two modules of that kind and an entry in `dialect`.
"""

from __future__ import annotations
