"""The duration of `trackbed diff --nodes` and `trackbed apply --nodes` on 256 hosts, over a real sshd on loopback."""

import os
import resource
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.figures import Figure
from tests.fleet.site import Site, site

HOSTS: Final = 256
WRONG: Final = ("refused", "hangs", "full", "no-python", "dies")
GOAL_SECONDS, GOAL_MB = 90.0, 500.0
_EACH_SECONDS: Final = 0.5


@dataclass
class Memory:
    """The largest memory in MB of Trackbed with its ssh clients, and of its ssh clients alone."""

    stop: threading.Event = field(default_factory=threading.Event)
    whole: float = 0.0
    clients: float = 0.0
    samples: int = 0

    def watch(self) -> None:
        """Sample every process below our `trackbed` commands twice a second, until `stop`."""
        while not self.stop.wait(_EACH_SECONDS):
            sizes = [(name, _pss(pid)) for pid, name in _map_descendants().items()]
            self.whole = max(self.whole, sum(size for _, size in sizes))
            self.clients = max(self.clients, sum(size for name, size in sizes if name == "ssh"))
            self.samples += bool(sizes)


def fleet(hosts: int = HOSTS) -> Iterator[Figure]:
    """Yield the seconds of diff and apply, and the memory of the control side, directly and through gateways."""
    wrong = {(at + 1) * hosts // 6: how for at, how in enumerate(WRONG)}
    for config, how in (("ssh_config", ""), ("tree_config", ", through two gateways")):
        memory, cpu = Memory(), _cpu()
        watcher = threading.Thread(target=memory.watch)
        watcher.start()
        try:
            with tempfile.TemporaryDirectory() as folder, site(Path(folder), hosts, wrong) as made:
                seconds, failed = _time_commands(made, hosts, wrong, config)
        finally:
            memory.stop.set()
            watcher.join()
        why = failed or f"{_cpu() - cpu:.0f} CPU s of all processes that were waited for, making the hosts included"
        yield Figure(f"diff and apply, {hosts} hosts{how}", None if failed else seconds, GOAL_SECONDS, "s", why=why)
        reason = f"of it {memory.clients:.0f} MB in ssh; {memory.samples} samples of PSS"
        size = memory.whole if memory.samples else None
        yield Figure(f"memory of the control side{how}", size, GOAL_MB, "MB", why=reason)


def _time_commands(made: Site, hosts: int, wrong: dict[int, str], config: str) -> tuple[float, str]:
    """Return the seconds, and what was wrong: every failing host must be named, and the others be as planned."""
    began = time.monotonic()
    many = ("--nodes", f"gpu[001-{hosts:03}]", "--fanout", "16", "--timeout", "30")
    made.trackbed("diff", *many, config=config)
    done = made.trackbed("apply", *many, "--yes", "--batch", "100%", "--canary", "1", config=config)
    seconds = time.monotonic() - began
    missing = [f"gpu{number:03}" for number in wrong if f"gpu{number:03}: " not in done.stderr]
    good = f"{hosts - len(wrong)} of {hosts} hosts are as planned" in done.stdout
    return seconds, "" if good and not missing else f"{missing} {done.stdout[-200:]} {done.stderr[-400:]}"


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _map_descendants() -> dict[int, str]:
    """Return PID and name of each `trackbed` that this process started, and of their descendants."""
    parents, names = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name, _, fields = (entry / "stat").read_text().partition("(")[2].rpartition(")")
            except OSError:  # the process has ended
                continue
            names[int(entry.name)], parents[int(entry.name)] = name, int(fields.split()[1])
    pids = {pid for pid, parent in parents.items() if parent == os.getpid() and _is_trackbed(pid)}
    while children := {pid for pid, parent in parents.items() if parent in pids} - pids:
        pids |= children
    return {pid: names[pid] for pid in pids}


def _is_trackbed(pid: int) -> bool:
    try:
        return b"\0-m\0trackbed\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _pss(pid: int) -> float:
    """Return the proportional set size in MB (proc(5)); 0 for a process that has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1000
