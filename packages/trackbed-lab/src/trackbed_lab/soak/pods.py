"""The pods of a soak: their namespaces, and the calls of a container runtime for them."""

import json
import secrets
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Interface
from pathlib import Path
from socket import AF_INET
from typing import Any, NamedTuple

from trackbed.kernel.netlink.addresses import list_addresses
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.kernel.netlink.links import list_links
from trackbed.kernel.netlink.sockets import Socket
from trackbed.node.rails.errors import Code
from trackbed_lab.runtime import CNI_VERSION
from trackbed_lab.soak.record import SoakRecord

CALL_SECONDS = 90.0
DELETE_SECONDS = 120.0
"""Time in which a repeated DEL must succeed; no fault lasts as long."""
_FIRST_RAIL_INDEX = 1 << 16
_RETRY_SECONDS = 0.2
_NO_ANSWER = -1
_EXPECTED = {
    "ADD": {Code.TRY_AGAIN, Code.JOURNAL},
    "DEL": {Code.TRY_AGAIN},
    "CHECK": {Code.TRY_AGAIN},
}
"""Codes that a call may end with while an agent is killed or its disk is full."""


class CniOutcome(NamedTuple):
    """The end of a call: code 0 with a result, or an error's code and message."""

    code: int
    message: str
    result: dict[str, Any]


@dataclass(slots=True)
class SoakPod:
    """A pod: one network namespace, and the rails that it asks for."""

    name: str
    node: str
    executable: Path
    netns: Path
    mode: str
    rails: tuple[int, ...]
    record: SoakRecord
    container: str = field(default_factory=lambda: secrets.token_hex(32))

    def call(self, command: str, netns: str | None = None, **fields: object) -> CniOutcome:
        """Call the CNI executable as a runtime does."""
        config = {"cniVersion": CNI_VERSION, "name": "rails", "type": "trackbed", "mode": self.mode}
        environment = {
            "CNI_COMMAND": command,
            "CNI_CONTAINERID": self.container,
            "CNI_NETNS": str(self.netns) if netns is None else netns,
            "CNI_IFNAME": "eth0",
            "CNI_PATH": str(self.executable.parent),
            "CNI_ARGS": f"IgnoreUnknown=1;K8S_POD_NAMESPACE=soak;K8S_POD_NAME={self.name}",
        }
        content = json.dumps({**config, "rails": self.rails, **fields}).encode()
        try:
            process = subprocess.run(  # noqa: S603 - the executable that the soak has installed
                [self.executable],
                env=environment,
                input=content,
                capture_output=True,
                timeout=CALL_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return CniOutcome(_NO_ANSWER, f"no answer within {CALL_SECONDS:.0f} s", {})
        outcome = _parse_outcome(process.returncode, process.stdout)
        self.record.count(f"{command} refused with {outcome.code}" if outcome.code else command)
        return outcome

    def call_expecting(self, command: str, netns: str | None = None, **fields: object) -> CniOutcome:
        """Call the CNI executable; an error that no injected fault explains is a finding."""
        outcome = self.call(command, netns, **fields)
        if outcome.code and outcome.code not in _EXPECTED[command]:
            self.report(f"{command} failed: {outcome.message} (code {outcome.code})")
        return outcome

    def add(self) -> CniOutcome:
        """Call ADD; compare the kernel with its result."""
        outcome = self.call_expecting("ADD")
        if outcome.code == 0:
            self.record.hold_addresses(self.name, self.node, list_result_addresses(outcome.result))
            self.compare(outcome.result)
        return outcome

    def check(self, result: dict[str, Any]) -> None:
        """Call CHECK with the result of ADD."""
        self.call_expecting("CHECK", prevResult=result)

    def delete(self, netns: str | None = None) -> None:
        """Call DEL until it succeeds, as a runtime does; afterwards nothing may be left in the namespace."""
        self.record.release_addresses(self.name)
        deadline = time.monotonic() + DELETE_SECONDS
        while self.call_expecting("DEL", netns).code:
            if time.monotonic() > deadline:
                self.report(f"no DEL succeeded within {DELETE_SECONDS:.0f} s")
                return
            time.sleep(_RETRY_SECONDS)
        self._compare_after_delete()

    def compare(self, result: dict[str, Any]) -> None:
        """Compare the addresses in the kernel with a result."""
        with suppress(FileNotFoundError):  # the namespace has vanished
            configured, promised = read_addresses(self.netns), set(list_result_addresses(result))
            if configured != promised:
                self.report(f"its result has {sorted(promised)}, its namespace {sorted(configured)}")

    def report(self, finding: str) -> None:
        """Record something of this pod that must not be."""
        self.record.report(f"{self.name} on {self.node} ({self.mode}): {finding}")

    def _compare_after_delete(self) -> None:
        try:
            with Socket(netns=self.netns) as sock:
                names = [link.name for link in list_links(sock) if link.index >= _FIRST_RAIL_INDEX]
        except (OSError, NetlinkError):
            return  # the namespace has vanished
        if names:
            self.report(f"after DEL its namespace still has {', '.join(names)}")


def list_result_addresses(result: dict[str, Any]) -> list[str]:
    """Return the addresses in the result of an ADD, with prefix lengths."""
    return [entry["address"] for entry in result.get("ips", ())]


def read_addresses(netns: Path) -> set[str]:
    """Return the IPv4 addresses of the rails in a namespace, with prefix lengths."""
    with Socket(netns=netns) as sock:
        return {
            str(IPv4Interface((address.address, address.prefix)))
            for address in list_addresses(sock, AF_INET)
            if address.index >= _FIRST_RAIL_INDEX
        }


def _parse_outcome(status: int, output: bytes) -> CniOutcome:
    try:
        document = json.loads(output or b"{}")
    except ValueError:
        return CniOutcome(_NO_ANSWER, f"no JSON: {output[:200]!r}", {})
    if status == 0:
        return CniOutcome(0, "", document)
    return CniOutcome(document.get("code", _NO_ANSWER), document.get("msg", ""), {})
