"""Inventories of remote hosts: each runs `trackbed discover` over SSH, in parallel by ClusterShell.

Keys, users and jump hosts are those of the user's OpenSSH configuration. Trackbed must be installed on the hosts; where
it is not, `trackbed capture` elsewhere and an archive do the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from ClusterShell.Task import task_self

from trackbed.host.discover.inventory import Inventory

COMMAND = "trackbed discover -o json"
TIMEOUT_SECONDS = 120
"""Reading the VPD of a dozen cards takes seconds; nvidia-smi may take a minute without its daemon."""
FANOUT = 64
_SSH_OPTIONS = "-o BatchMode=yes"
"""A host that wants a password is one that cannot be asked."""


def query_hosts(hosts: Sequence[str]) -> tuple[list[Inventory], dict[str, str]]:
    """Return the inventories in the order of hosts, and the reason for each host without one."""
    engine = task_self()
    engine.set_info("fanout", FANOUT)
    engine.set_info("ssh_options", _SSH_OPTIONS)
    engine.shell(COMMAND, nodes=",".join(hosts), timeout=TIMEOUT_SECONDS, stderr=True)
    engine.run()
    answers = {host: _parse_answer(engine, host) for host in hosts}
    inventories = [answer for answer in answers.values() if isinstance(answer, Inventory)]
    return inventories, {host: answer for host, answer in answers.items() if isinstance(answer, str)}


def _parse_answer(engine: Any, host: str) -> Inventory | str:  # noqa: ANN401 - ClusterShell has no types
    """Return the inventory of a host, or the reason for its absence."""
    try:
        return msgspec.structs.replace(msgspec.json.decode(bytes(engine.key_buffer(host)), type=Inventory), host=host)
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError):
        lines = bytes(engine.key_error(host)).decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"no answer to `{COMMAND}` within {TIMEOUT_SECONDS} s"
