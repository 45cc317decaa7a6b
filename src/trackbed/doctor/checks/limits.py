"""Step limits: what processes may open, lock and watch, and what the kernel does to the memory they pinned.

Jobs on the host itself are looked for by the daemons that start them (Slurm, PBS, Open MPI); where none runs, jobs run
in containers only, and what concerns the others is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge
from trackbed.doctor.checks.limits_processes import READS as PROCESSES
from trackbed.doctor.checks.limits_processes import UNLIMITED, ProcessLimits, find_processes, is_below
from trackbed.host.snapshot.snapshot import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.host.snapshot.snapshot import Snapshot

RUNTIMES = ("containerd", "crio", "dockerd")
STARTERS = ("slurmd", "slurmstepd", "pbs_mom", "orted", "prted", "sge_execd")
"""Programs that start the ranks of jobs outside containers."""

OPEN_FILES = 131072
"""Of one process: a rank of a large job holds some sockets to each other rank."""
SYSTEM_FILES = 2097152
INOTIFY = {"max_user_instances": 1024, "max_user_watches": 524288}
"""kubelet, Multus and device plugins all watch folders as root, that is as one user."""

_INOTIFY, _FILE_MAX, _BALANCING = "/proc/sys/fs/inotify", "/proc/sys/fs/file-max", "/proc/sys/kernel/numa_balancing"
_LOGIND = ("/etc/systemd/logind.conf", "/etc/systemd/logind.conf.d/*.conf")
_LIMITS = ("/etc/security/limits.conf", "/etc/security/limits.d/*.conf")
_CGROUPS = tuple(f"/sys/fs/cgroup/{'*/' * depth}rdma.max" for depth in range(1, 5))
_WORDS = 4
"""Of a line of limits.conf(5): who, hard or soft, what, how much."""

READS = (
    Wanted(files=(*(f"{_INOTIFY}/{key}" for key in INOTIFY), _FILE_MAX, _BALANCING, *_LOGIND, *_LIMITS, *_CGROUPS))
    | PROCESSES
)


def check(view: NodeView) -> Iterator[Finding]:
    """Judge the host as a whole: none of these belongs to one rail."""
    host = view.host
    if host is None:
        return
    runtimes, starters = find_processes(host, *RUNTIMES), find_processes(host, *STARTERS)
    yield from _files(view, host, [*runtimes, *starters])
    yield from _stacks(view, [*runtimes, *starters])
    yield from _memlock(view, host, starters)
    if starters:
        yield _remove_ipc(view, host)
    if runtimes:
        yield from _inotify(view, host)
    yield from _balancing(view, host)
    yield from _rdma_cgroup(view, host)


def _files(view: NodeView, host: Snapshot, started: list[ProcessLimits]) -> Iterator[Finding]:
    most = host.number(_FILE_MAX)
    known = [(_shown(one), limit) for one in started if (limit := one.limits.get("Max open files")) is not None]
    if most is None or not known:
        return
    low = [f"{who}: {limit} open files" for who, limit in known if is_below(limit, OPEN_FILES)]
    low += [f"fs.file-max is {most}"] if most < SYSTEM_FILES else []
    yield judge("limits-nofile-low", view.node, None, ok=not low, evidence=", ".join(low))


def _stacks(view: NodeView, started: list[ProcessLimits]) -> Iterator[Finding]:
    known = [(_shown(one), limit) for one in started if (limit := one.limits.get("Max stack size")) is not None]
    endless = [who for who, limit in known if limit == UNLIMITED]
    evidence = f"stack without limit: {', '.join(endless)}" if endless else ""
    if known:
        yield judge("limits-stack-unlimited", view.node, None, ok=not endless, evidence=evidence)


def _shown(one: ProcessLimits) -> str:
    return f"{one.name} (process {one.pid})"


def _memlock(view: NodeView, host: Snapshot, starters: list[ProcessLimits]) -> Iterator[Finding]:
    """A line of limits.d that says less counts on every host; that there is none counts where jobs run without pods."""
    told = _told(host)
    low = [f"{path}: {who} {kind} memlock {much}" for (who, kind), (path, much) in told.items() if not _endless(much)]
    held = ((one, one.limits.get("Max locked memory")) for one in starters)
    low += [f"{_shown(one)} may lock {limit} bytes" for one, limit in held if limit not in {None, UNLIMITED}]
    if told or starters:
        yield judge("limits-memlock-for-host-jobs", view.node, None, ok=not low, evidence=", ".join(low))


def _told(host: Snapshot) -> dict[tuple[str, str], tuple[str, str]]:
    """(who, soft or hard) -> (the file, how much), for everybody and for root: the last line wins (pam_limits(8))."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for path in _paths(host, _LIMITS):
        for line in (host.text(path) or "").splitlines():
            words = line.partition("#")[0].split()
            if len(words) == _WORDS and words[2] == "memlock" and words[0] in {"*", "root"}:
                found |= {(words[0], kind): (path, words[3]) for kind in ("soft", "hard") if words[1] in {kind, "-"}}
    return found


def _endless(much: str) -> bool:
    return much in {UNLIMITED, "infinity", "-1"}


def _remove_ipc(view: NodeView, host: Snapshot) -> Finding:
    """logind.conf(5): RemoveIPC is yes where nobody says otherwise."""
    value, place = "yes", "the default"
    for path in _paths(host, _LOGIND):
        for line in (host.text(path) or "").splitlines():
            key, _, said = line.partition("=")
            if key.strip() == "RemoveIPC":
                value, place = said.strip().lower(), path
    ok = value in {"no", "false", "off", "0"}
    return judge("limits-removeipc", view.node, None, ok=ok, evidence=f"RemoveIPC={value} ({place})")


def _inotify(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    have = {key: host.number(f"{_INOTIFY}/{key}") for key in INOTIFY}
    low = [f"{key} is {value}" for key, value in have.items() if value is not None and value < INOTIFY[key]]
    if None not in have.values():
        yield judge("limits-inotify-low", view.node, None, ok=not low, evidence=", ".join(low))


def _balancing(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """A plan that keeps CPUs for jobs asks for memory that stays where it is."""
    common, value = view.node.common, host.number(_BALANCING)
    pinned = (common.kernel and common.kernel.isolated_cpus) or (common.kubelet and common.kubelet.reserved_cpus)
    if pinned and value is not None:
        ok = value == 0
        yield judge("limits-numa-balancing-on", view.node, None, ok=ok, evidence=f"kernel.numa_balancing is {value}")


def _rdma_cgroup(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    paths = _paths(host, _CGROUPS)
    held = [(path, line) for path in paths for line in (host.text(path) or "").splitlines()]
    limited = [f"{path}: {line}" for path, line in held if any(word[-4:] != "=max" for word in line.split()[1:])]
    if paths:
        yield judge("limits-rdma-cgroup", view.node, None, ok=not limited, evidence="; ".join(limited[:3]))


def _paths(host: Snapshot, patterns: tuple[str, ...]) -> list[str]:
    return [path for pattern in patterns for path in host.glob(pattern)]
