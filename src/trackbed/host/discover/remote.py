"""Inventories of remote hosts. ClusterShell runs `trackbed discover` on all of them in parallel over SSH.

Keys, users and jump hosts are those of the user's OpenSSH configuration. Trackbed must be installed on the hosts;
inventories of other hosts can be read from archives of `trackbed capture`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from ClusterShell.Task import task_self

from trackbed.host.discover.inventory import Inventory
from trackbed.host.ssh_output import MAX_OUTPUT_BYTES, use_bounded_output

COMMAND = "trackbed discover -o json"
TIMEOUT_SECONDS = 120
"""Reading the VPD of a dozen cards takes seconds; nvidia-smi may take a minute without its daemon."""
FANOUT = 64
_SSH_OPTIONS = "-o BatchMode=yes"
"""A host that asks for a password fails at once."""
_MAX_REASON_CHARACTERS = 300
_NO_ANSWER = (
    f"no answer to `{COMMAND}` within {TIMEOUT_SECONDS} s, or one that is no inventory or larger than"
    f" {MAX_OUTPUT_BYTES >> 20} MiB; try: ssh HOST {COMMAND}"
)


def query_hosts(hosts: Sequence[str]) -> tuple[list[Inventory], dict[str, str]]:
    """Return the inventories in the order of `hosts`, and the reason for each missing inventory by host."""
    engine = task_self()
    use_bounded_output(engine)
    engine.set_info("fanout", FANOUT)
    engine.set_info("ssh_options", _SSH_OPTIONS)
    engine.shell(COMMAND, nodes=",".join(hosts), timeout=TIMEOUT_SECONDS, stderr=True)
    engine.run()
    answers = {host: _parse_response(engine, host) for host in hosts}
    inventories = [answer for answer in answers.values() if isinstance(answer, Inventory)]
    return inventories, {host: answer for host, answer in answers.items() if isinstance(answer, str)}


def _parse_response(engine: Any, host: str) -> Inventory | str:  # noqa: ANN401 - ClusterShell has no types
    try:
        return msgspec.structs.replace(msgspec.json.decode(bytes(engine.key_buffer(host)), type=Inventory), host=host)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError):
        lines = bytes(engine.key_error(host)).decode(errors="replace").strip().splitlines()
        return lines[-1][:_MAX_REASON_CHARACTERS] if lines else _NO_ANSWER
