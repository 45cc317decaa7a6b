"""Leaf switches: what a Plan makes of them, and whether a switch agrees with its hosts. No switch is touched.

    wiring   what the plan does not say: ports, uplinks, numbers
    leaf     Plan and Wiring -> leaves
    nvue     leaf -> commands of Cumulus Linux;   nvue_read   a configuration -> what its ports do
    sonic    leaf -> config_db.json of SONiC;     sonic_read  likewise
    agree    leaf and what its switch does -> disagreements;   dialect   which of the two systems it is

Another network operating system is two modules of that kind and an entry in `dialect`.
"""

from __future__ import annotations
