"""The ports that are in pods (mode move), as the agent's journal records them (`node.rails.store`).

A port that a pod holds is absent from the host and comes back when the pod ends, so its absence is no difference.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from operator import itemgetter
from typing import Any, NamedTuple

from trackbed.host.boot_id import read_boot_id
from trackbed.host.journal_records import parse_records
from trackbed.host.machine import Machine

JOURNAL = "/var/lib/trackbed/agent/journal"
"""The agent's journal, in the folder that stack `native` and the chart give it."""

_get_fields = itemgetter("container", "ifname", "boot", "ports")
"""Return the fields of an attachment that are read here. Raises LookupError if one is missing."""


class MovedPort(NamedTuple):
    """A port in a pod: its name on the host, its MAC, and the pod."""

    netdev: str
    mac: str
    pod: str


def read_moved_ports(machine: Machine) -> dict[str, MovedPort]:
    """Return the ports that are in pods by their names on the host; empty without a readable journal.

    Attachments of another boot have ended with it.
    """
    raw = b"" if machine.shared_reason else machine.read_bytes(JOURNAL)
    if not isinstance(raw, bytes) or not raw:
        return {}
    attachments: dict[tuple[str, str], dict[str, Any]] = {}
    for record in _iter_records(raw):
        if record["record"] == "held":
            attachment = record["attachment"]
            attachments[attachment["container"], attachment["ifname"]] = attachment
        elif record["record"] == "gone":
            attachments.pop(tuple(record["key"]), None)
    boot = read_boot_id()
    present = [attachment for attachment in attachments.values() if attachment["boot"] == boot]
    return {port.netdev: port for attachment in present for port in _iter_moved_ports(attachment)}


def _iter_records(raw: bytes) -> Iterator[dict[str, Any]]:
    """Yield the records of held and ended attachments; unknown or malformed ones are skipped."""
    for payload in parse_records(raw).payloads:
        try:
            record = json.loads(payload)
            known = {"held": lambda record: _get_fields(record["attachment"]), "gone": lambda record: record["key"]}
            known[record["record"]](record)
        except (ValueError, LookupError, TypeError):
            continue
        yield record


def _iter_moved_ports(attachment: dict[str, Any]) -> Iterator[MovedPort]:
    """Yield the ports of an attachment that are whole ports of the host, not VFs (which have a `pf`)."""
    pod = attachment.get("pod") or f"container {attachment['container'][:12]}"
    for port in attachment["ports"]:
        host = port.get("host")
        if host and not host.get("pf"):
            yield MovedPort(host["name"], port.get("mac", ""), pod)
