"""Step limits: open files, locked memory and inotify watches of processes, and the kernel's handling of pinned memory.

Hosts that run jobs outside containers are recognised by the daemons that start them (Slurm, PBS, Open MPI). Without
such a daemon the checks of such jobs are skipped.
"""

from collections.abc import Iterator

from trackbed.doctor.catalogue import judge
from trackbed.doctor.checks.limits_processes import READS as PROCESSES
from trackbed.doctor.checks.limits_processes import UNLIMITED, ProcessLimits, find_processes, is_below
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

RUNTIMES = ("containerd", "crio", "dockerd")
STARTERS = ("slurmd", "slurmstepd", "pbs_mom", "orted", "prted", "sge_execd")
"""Programs that start the ranks of jobs outside containers."""

OPEN_FILES = 131072
"""Open files of one process: a rank of a large job holds several sockets to each other rank."""
SYSTEM_FILES = 2097152
INOTIFY = {"max_user_instances": 1024, "max_user_watches": 524288}
"""Minimum by sysctl: kubelet, Multus and device plugins all watch folders as the user root."""

_INOTIFY, _FILE_MAX, _BALANCING = "/proc/sys/fs/inotify", "/proc/sys/fs/file-max", "/proc/sys/kernel/numa_balancing"
_LOGIND = ("/etc/systemd/logind.conf", "/etc/systemd/logind.conf.d/*.conf")
_LIMITS = ("/etc/security/limits.conf", "/etc/security/limits.d/*.conf")
_CGROUPS = tuple(f"/sys/fs/cgroup/{'*/' * depth}rdma.max" for depth in range(1, 5))
_COLUMNS = 4
"""Columns of a line of limits.conf(5): domain, type (hard or soft), item, value."""

READS = (
    Wanted(files=(*(f"{_INOTIFY}/{key}" for key in INOTIFY), _FILE_MAX, _BALANCING, *_LOGIND, *_LIMITS, *_CGROUPS))
    | PROCESSES
)


def check(view: NodeView) -> Iterator[Finding]:
    """Check the host as a whole: none of these limits belongs to one rail."""
    host = view.host
    if host is None:
        return
    runtimes, starters = find_processes(host, *RUNTIMES), find_processes(host, *STARTERS)
    yield from check_open_files(view, host, [*runtimes, *starters])
    yield from check_stacks(view, [*runtimes, *starters])
    yield from check_memlock(view, host, starters)
    if starters:
        yield check_remove_ipc(view, host)
    if runtimes:
        yield from check_inotify(view, host)
    yield from check_numa_balancing(view, host)
    yield from check_rdma_cgroup(view, host)


def check_open_files(view: NodeView, host: Snapshot, processes: list[ProcessLimits]) -> Iterator[Finding]:
    """Check the limits for open files of one process and of the system."""
    file_max = host.read_number(_FILE_MAX)
    known = _get_limits(processes, "Max open files")
    if file_max is None or not known:
        return
    low = [f"{process}: {limit} open files" for process, limit in known if is_below(limit, OPEN_FILES)]
    low += [f"fs.file-max is {file_max}"] if file_max < SYSTEM_FILES else []
    yield judge("limits-nofile-low", view.node, None, ok=not low, evidence=", ".join(low))


def check_stacks(view: NodeView, processes: list[ProcessLimits]) -> Iterator[Finding]:
    """Check that stacks have a limit."""
    known = _get_limits(processes, "Max stack size")
    unlimited = [process for process, limit in known if limit == UNLIMITED]
    evidence = f"stack without limit: {', '.join(unlimited)}" if unlimited else ""
    if known:
        yield judge("limits-stack-unlimited", view.node, None, ok=not unlimited, evidence=evidence)


def _get_limits(processes: list[ProcessLimits], name: str) -> list[tuple[str, str]]:
    """Return (process, soft limit) for the processes whose limit is known."""
    limits = [(_format_process(process), process.limits.get(name)) for process in processes]
    return [(process, limit) for process, limit in limits if limit is not None]


def _format_process(process: ProcessLimits) -> str:
    return f"{process.name} (process {process.pid})"


def check_memlock(view: NodeView, host: Snapshot, starters: list[ProcessLimits]) -> Iterator[Finding]:
    """Check that locked memory is unlimited.

    A lower limit in limits.d is a fault on every host. A missing limit is one only where jobs run outside containers.
    """
    configured = _read_memlock(host)
    low = [
        f"{path}: {domain} {kind} memlock {value}"
        for (domain, kind), (path, value) in configured.items()
        if not _is_unlimited(value)
    ]
    limits = _get_limits(starters, "Max locked memory")
    low += [f"{process} may lock {limit} bytes" for process, limit in limits if limit != UNLIMITED]
    if configured or starters:
        yield judge("limits-memlock-for-host-jobs", view.node, None, ok=not low, evidence=", ".join(low))


def _read_memlock(host: Snapshot) -> dict[tuple[str, str], tuple[str, str]]:
    """Map (domain, type) of all users and of root to (file, value); the last matching line wins (pam_limits(8))."""
    limits: dict[tuple[str, str], tuple[str, str]] = {}
    for path in _glob_all(host, _LIMITS):
        for line in (host.read_text(path) or "").splitlines():
            columns = line.partition("#")[0].split()
            if len(columns) == _COLUMNS and columns[2] == "memlock" and columns[0] in {"*", "root"}:
                domain, kinds, _, value = columns
                limits |= {(domain, kind): (path, value) for kind in ("soft", "hard") if kinds in {kind, "-"}}
    return limits


def _is_unlimited(value: str) -> bool:
    return value in {UNLIMITED, "infinity", "-1"}


def check_remove_ipc(view: NodeView, host: Snapshot) -> Finding:
    """Check that logind does not remove the IPC objects of users that log out; RemoveIPC is yes by default."""
    value, source = "yes", "the default"
    for path in _glob_all(host, _LOGIND):
        for line in (host.read_text(path) or "").splitlines():
            key, _, setting = line.partition("=")
            if key.strip() == "RemoveIPC":
                value, source = setting.strip().lower(), path
    ok = value in {"no", "false", "off", "0"}
    return judge("limits-removeipc", view.node, None, ok=ok, evidence=f"RemoveIPC={value} ({source})")


def check_inotify(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check the inotify limits of one user."""
    values = {key: host.read_number(f"{_INOTIFY}/{key}") for key in INOTIFY}
    low = [f"{key} is {value}" for key, value in values.items() if value is not None and value < INOTIFY[key]]
    if None not in values.values():
        yield judge("limits-inotify-low", view.node, None, ok=not low, evidence=", ".join(low))


def check_numa_balancing(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that NUMA balancing is off where the plan reserves CPUs, whose jobs pin their memory."""
    common, value = view.node.common, host.read_number(_BALANCING)
    has_reserved_cpus = (common.kernel and common.kernel.isolated_cpus) or (
        common.kubelet and common.kubelet.reserved_cpus
    )
    if has_reserved_cpus and value is not None:
        evidence = f"kernel.numa_balancing is {value}"
        yield judge("limits-numa-balancing-on", view.node, None, ok=value == 0, evidence=evidence)


def check_rdma_cgroup(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that no cgroup limits RDMA resources."""
    paths = _glob_all(host, _CGROUPS)
    lines = [(path, line) for path in paths for line in (host.read_text(path) or "").splitlines()]
    limited = [f"{path}: {line}" for path, line in lines if any(item[-4:] != "=max" for item in line.split()[1:])]
    if paths:
        yield judge("limits-rdma-cgroup", view.node, None, ok=not limited, evidence="; ".join(limited[:3]))


def _glob_all(host: Snapshot, patterns: tuple[str, ...]) -> list[str]:
    return [path for pattern in patterns for path in host.glob(pattern)]
