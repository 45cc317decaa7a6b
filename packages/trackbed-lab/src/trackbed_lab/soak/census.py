"""The census at the end of a soak: what agents, kernel, journals, API server and /proc hold, against what they may.

Namespaces have no VFs; the ports that move into pods take their place.
"""

import os
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from trackbed.cluster.api.errors import KubeError
from trackbed.kernel.netlink.addresses import list_addresses
from trackbed.kernel.netlink.links import list_links
from trackbed.kernel.netlink.routes import list_routes
from trackbed.kernel.netlink.rules import list_rules
from trackbed.kernel.netlink.sockets import Socket
from trackbed.node.rails.client import read_status
from trackbed.node.rails.journal import Journal, JournalError
from trackbed.node.rails.store import Store
from trackbed_lab.soak.daemons import Daemon
from trackbed_lab.soak.measure import UsageSample, read_usage
from trackbed_lab.soak.site import POD_NAMESPACE, READY_SECONDS, Site, SoakNode, build_pod_object

SETTLE_SECONDS = 15.0
"""Time for the kernel to free what was deleted, and for agents to end their probes for address conflicts."""
_MAX_DESCRIPTORS, _MAX_THREADS = 32, 40
"""Growth of an idle program that is no leak: kept connections, and threads of its pools, which are made when needed."""
_BUG = re.compile(r"^Traceback |this is a bug|was never (?:awaited|retrieved)", re.MULTILINE)

NamespaceContent = dict[str, Counter[str]]
"""Links, addresses, routes and rules of a network namespace, as text."""


def read_namespaces(site: Site) -> dict[str, NamespaceContent]:
    """Return the content of every namespace of nodes and switches, by name."""
    return {path.name: _read_namespace(path) for path in sorted((site.files / "ns").iterdir())}


def _read_namespace(path: Path) -> NamespaceContent:
    with Socket(netns=path) as sock:
        links = {link.index: link for link in list_links(sock)}
        names = {index: link.name for index, link in links.items()} | {0: "-"}
        return {
            "link": Counter(
                f"{link.name} {link.kind} {link.mac} mtu {link.mtu} {'up' if link.is_up else 'down'}"
                f" master {names.get(link.master)}"
                for link in links.values()
            ),
            "address": Counter(
                f"{item.address:x}/{item.prefix} on {names.get(item.index)}" for item in list_addresses(sock)
            ),
            "route": Counter(
                f"{item.dst:x}/{item.prefix} table {item.table} via {item.gateway:x} on {names.get(item.oif)}"
                for item in list_routes(sock)
            ),
            "rule": Counter(
                f"{item.priority} table {item.table} {item.src:x}/{item.src_prefix}" for item in list_rules(sock)
            ),
        }


def read_free_addresses(site: Site) -> dict[str, dict[str, int]]:
    """Return the number of free addresses by node and rail. Raises OSError if an agent does not answer."""
    return {node.name: read_status(node.socket)["free"] for node in site.nodes}


def read_usages(daemons: list[Daemon], seconds: float) -> dict[str, UsageSample]:
    """Return the resources of every program that runs."""
    usages = {}
    for daemon in daemons:
        with suppress(OSError):
            usages[daemon.name] = read_usage(daemon.pid, seconds)
    return usages


class Census:
    """What a site has before its first pod; `count` compares it with what it has in the end."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._namespaces = read_namespaces(site)
        self._free = read_free_addresses(site)
        self.usages = read_usages(site.daemons, 0)

    def count(self) -> list[str]:
        """Return what is held twice, lost or left over. Stops the site."""
        findings = [*self._count_objects(), *self._count_agents(), *self._compare_namespaces(), *self._compare_usages()]
        findings += [f"the namespace of {path.name} is left" for path in sorted(self._site.pods.iterdir())]
        findings += self._restart_agents()
        logs = {daemon.name: daemon.log for daemon in self._site.daemons}
        findings += self._stop_daemons()
        findings += [line for node in self._site.nodes for line in _read_journal(node)]
        findings += [line for name, log in logs.items() for line in _find_bugs(name, log)]
        return findings + _list_processes()

    def _count_objects(self) -> Iterator[str]:
        """Yield the Pods that cannot be deleted; those of ended pods may be left where the API server was away."""
        api = self._site.api
        assert api is not None  # noqa: S101 - the site is built
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                pods = api.list("v1", "Pod", POD_NAMESPACE)
                for pod in pods:
                    api.delete(build_pod_object(pod["metadata"]["name"]))
                if not pods:
                    return
            except KubeError as error:
                if time.monotonic() > deadline:
                    yield f"the API server's Pods cannot be deleted: {error}"
                    return
            time.sleep(0.2)

    def _count_agents(self) -> list[str]:
        deadline = time.monotonic() + SETTLE_SECONDS
        while findings := list(self._iter_agent_findings()):
            if time.monotonic() > deadline:
                return findings
            time.sleep(0.5)
        return []

    def _iter_agent_findings(self) -> Iterator[str]:
        for node in self._site.nodes:
            try:
                status = read_status(node.socket)
            except OSError as error:
                yield f"{node.daemon.name} does not answer: {error}; {node.daemon.read_log_end()}"
                continue
            yield from _compare_status(node, status, self._free[node.name])

    def _compare_namespaces(self) -> list[str]:
        deadline = time.monotonic() + SETTLE_SECONDS
        while findings := compare_contents(self._namespaces, read_namespaces(self._site)):
            if time.monotonic() > deadline:
                return findings
            time.sleep(0.5)
        return []

    def _compare_usages(self) -> Iterator[str]:
        """Yield the growth of descriptors and threads of the programs that were never killed."""
        survivors = [daemon for daemon in self._site.daemons if not daemon.expendable]
        usages = read_usages(survivors, 0)
        for daemon in survivors:
            before, after = self.usages.get(daemon.name), usages.get(daemon.name)
            if before is None or after is None:
                yield f"{daemon.name} does not run"
                continue
            if after.descriptors > before.descriptors + _MAX_DESCRIPTORS:
                yield f"{daemon.name} has {after.descriptors} descriptors, {before.descriptors} before the first pod"
            if after.threads > before.threads + _MAX_THREADS:
                yield f"{daemon.name} has {after.threads} threads, {before.threads} before the first pod"

    def _restart_agents(self) -> list[str]:
        """Restart the agents that may be killed; they must find in their journals what they had in memory: nothing."""
        for node in self._site.nodes:
            if node.daemon.expendable:
                node.daemon.stop(signal.SIGKILL)
                node.daemon.start()
        for node in self._site.nodes:
            self._site.wait_for_agent(node)
        return [f"after a restart: {finding}" for finding in self._iter_agent_findings()]

    def _stop_daemons(self) -> Iterator[str]:
        for daemon in self._site.daemons:
            if status := daemon.stop():
                yield f"{daemon.name} ended with {status} on SIGTERM: {daemon.read_log_end()}"
        self._site.stop()


def _compare_status(node: SoakNode, status: dict[str, Any], free: dict[str, int]) -> Iterator[str]:
    for attachment in status["attachments"]:
        yield f"{node.daemon.name} still has an attachment of {attachment['pod'] or attachment['container']}"
    if status["free"] != free:
        yield f"{node.daemon.name} has free addresses {status['free']}, {free} before the first pod"
    for conflict in status["conflicts"]:
        yield f"{node.daemon.name} found an address held twice: {conflict}"
    if status["watched"]:
        yield f"{node.daemon.name} still probes the addresses of {status['watched']} pods"
    if status["trouble"]:
        yield f"{node.daemon.name}: {status['trouble']}"


def compare_contents(before: dict[str, NamespaceContent], after: dict[str, NamespaceContent]) -> list[str]:
    """Return what namespaces have lost, and what they have that they had not."""
    findings = []
    for name in sorted(before.keys() | after.keys()):
        for kind in before.get(name, {}).keys() | after.get(name, {}).keys():
            old, new = before.get(name, {}).get(kind, Counter()), after.get(name, {}).get(kind, Counter())
            findings += [f"{name} has lost {kind} {text}" for text in sorted(old - new)]
            findings += [f"{name} has {kind} {text} left over" for text in sorted(new - old)]
    return findings


def _read_journal(node: SoakNode) -> Iterator[str]:
    try:
        store = Store(Journal(node.journal))
    except JournalError as error:
        yield f"the journal of {node.name} cannot be read: {error}"
        return
    for entry in store.list_entries():
        yield f"the journal of {node.name} still holds {entry.attachment}"
    store.close()


def _find_bugs(name: str, log: Path) -> Iterator[str]:
    """Yield the first trace of a bug in a log, with the end of the traceback."""
    text = log.read_text(errors="replace")
    if match := _BUG.search(text):
        lines = text[match.start() :].splitlines()
        end = next((line for line in lines[1:] if line[:1] not in {" ", ""}), "")
        yield f"the log of {name} has {len(_BUG.findall(text))} tracebacks, the first ending in: {end}"


def _list_processes() -> list[str]:
    """Return the processes of the sandbox that should have ended."""
    expected = {os.getpid(), 1}
    processes = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
    return [
        f"process {_read_command(pid)} still runs" for pid in processes if pid not in expected and _read_command(pid)
    ]


def _read_command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return ""
