"""Step limits: open files, locked memory and inotify watches of processes, and the kernel's handling of pinned memory.

Hosts that run jobs outside containers are recognised by the daemons that start the jobs (Slurm, PBS, Open MPI). On
other hosts the checks for such jobs are skipped.
"""

from collections.abc import Iterator
from typing import NamedTuple

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.checks.processes import UNLIMITED, ProcessLimits, find_processes, is_limit_below
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

CONTAINER_RUNTIMES = ("containerd", "crio", "dockerd")
JOB_DAEMONS = ("slurmd", "slurmstepd", "pbs_mom", "orted", "prted", "sge_execd")
"""Daemons that start the ranks of jobs outside containers."""

MIN_OPEN_FILES = 131072
"""Minimum limit on open files per process: a rank of a large job has several sockets to every other rank."""
MIN_FILE_MAX = 2097152
MIN_INOTIFY = {"max_user_instances": 1024, "max_user_watches": 524288}
"""Sysctl -> its minimum: kubelet, Multus and device plugins all watch folders as root."""

_INOTIFY, _FILE_MAX, _BALANCING = "/proc/sys/fs/inotify", "/proc/sys/fs/file-max", "/proc/sys/kernel/numa_balancing"
_LOGIND = ("/etc/systemd/logind.conf", "/etc/systemd/logind.conf.d/*.conf")
_LIMITS = ("/etc/security/limits.conf", "/etc/security/limits.d/*.conf")
_CGROUPS = tuple(f"/sys/fs/cgroup/{'*/' * depth}rdma.max" for depth in range(1, 5))
_UNLIMITED_VALUES = {UNLIMITED, "infinity", "-1"}
_COLUMNS = 4
"""Number of columns in limits.conf(5): domain, type (hard or soft), item, value."""

READS = Wanted(
    files=(*(f"{_INOTIFY}/{key}" for key in MIN_INOTIFY), _FILE_MAX, _BALANCING, *_LOGIND, *_LIMITS, *_CGROUPS)
)


def check_host(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check the host as a whole, because none of these limits belongs to one rail."""
    runtimes, daemons = find_processes(host, *CONTAINER_RUNTIMES), find_processes(host, *JOB_DAEMONS)
    yield from check_open_files(view, host, [*runtimes, *daemons])
    yield from check_stacks(view, [*runtimes, *daemons])
    yield from check_memlock(view, host, daemons)
    if daemons:
        yield check_remove_ipc(view, host)
    if runtimes:
        yield from check_inotify(view, host)
    yield from check_numa_balancing(view, host)
    yield from check_rdma_cgroup(view, host)


def check_open_files(view: NodeView, host: Snapshot, processes: list[ProcessLimits]) -> Iterator[Finding]:
    """Check the limits on open files, of each process and of the system."""
    file_max = host.read_number(_FILE_MAX)
    known = _list_known_limits(processes, "Max open files")
    if file_max is None or not known:
        return
    low = [f"{process}: {limit} open files" for process, limit in known if is_limit_below(limit, MIN_OPEN_FILES)]
    low += [f"fs.file-max is {file_max}"] if file_max < MIN_FILE_MAX else []
    yield build_finding("limits-nofile-low", view.node, None, ok=not low, evidence=", ".join(low))


def check_stacks(view: NodeView, processes: list[ProcessLimits]) -> Iterator[Finding]:
    """Check that the stack size of each process is limited."""
    known = _list_known_limits(processes, "Max stack size")
    unlimited = [process for process, limit in known if limit == UNLIMITED]
    evidence = f"stack without limit: {', '.join(unlimited)}" if unlimited else ""
    if known:
        yield build_finding("limits-stack-unlimited", view.node, None, ok=not unlimited, evidence=evidence)


def _list_known_limits(processes: list[ProcessLimits], limit_name: str) -> list[tuple[str, str]]:
    """Return (process, soft limit) for each process whose limit is known."""
    limits = [(f"{process.name} (process {process.pid})", process.limits.get(limit_name)) for process in processes]
    return [(process, limit) for process, limit in limits if limit is not None]


def check_memlock(view: NodeView, host: Snapshot, daemons: list[ProcessLimits]) -> Iterator[Finding]:
    """Check that locked memory is unlimited, in limits.conf(5) and for daemons that start jobs outside containers."""
    configured = _read_memlock_limits(host)
    low = [
        f"{limit.path}: {limit.domain} {limit.kind} memlock {limit.value}"
        for limit in configured
        if limit.value not in _UNLIMITED_VALUES
    ]
    limits = _list_known_limits(daemons, "Max locked memory")
    low += [f"{process} may lock {limit} bytes" for process, limit in limits if limit != UNLIMITED]
    if configured or daemons:
        yield build_finding("limits-memlock-for-host-jobs", view.node, None, ok=not low, evidence=", ".join(low))


class _MemlockLimit(NamedTuple):
    """A limit on locked memory in limits.conf(5); `domain` is `*` or `root`, `kind` is `soft` or `hard`."""

    path: str
    domain: str
    kind: str
    value: str


def _read_memlock_limits(host: Snapshot) -> list[_MemlockLimit]:
    """Return the effective limits on locked memory for all users and for root.

    The last matching line wins (pam_limits(8)).
    """
    limits: dict[tuple[str, str], _MemlockLimit] = {}
    for path in host.glob(*_LIMITS):
        for line in (host.read_text(path) or "").splitlines():
            columns = line.partition("#")[0].split()
            if len(columns) == _COLUMNS and columns[2] == "memlock" and columns[0] in {"*", "root"}:
                domain, kinds, _, value = columns
                for kind in ("soft", "hard"):
                    if kinds in {kind, "-"}:
                        limits[domain, kind] = _MemlockLimit(path, domain, kind, value)
    return list(limits.values())


def check_remove_ipc(view: NodeView, host: Snapshot) -> Finding:
    """Check that logind keeps the IPC objects of users who log out; by default it removes them."""
    value, source = "yes", "the default"
    for path in host.glob(*_LOGIND):
        for line in (host.read_text(path) or "").splitlines():
            key, _, setting = line.partition("=")
            if key.strip() == "RemoveIPC":
                value, source = setting.strip().lower(), path
    ok = value in {"no", "false", "off", "0"}
    return build_finding("limits-removeipc", view.node, None, ok=ok, evidence=f"RemoveIPC={value} ({source})")


def check_inotify(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check the inotify limits, which apply to each user."""
    values = {key: host.read_number(f"{_INOTIFY}/{key}") for key in MIN_INOTIFY}
    low = [f"{key} is {value}" for key, value in values.items() if value is not None and value < MIN_INOTIFY[key]]
    if None not in values.values():
        yield build_finding("limits-inotify-low", view.node, None, ok=not low, evidence=", ".join(low))


def check_numa_balancing(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that automatic NUMA balancing is off if the plan isolates CPUs or reserves some for the system.

    Jobs on dedicated CPUs have their memory on the right node; moving its pages only costs time.
    """
    common, value = view.node.common, host.read_number(_BALANCING)
    has_reserved_cpus = (common.kernel and common.kernel.isolated_cpus) or (
        common.kubelet and common.kubelet.reserved_cpus
    )
    if has_reserved_cpus and value is not None:
        evidence = f"kernel.numa_balancing is {value}"
        yield build_finding("limits-numa-balancing-on", view.node, None, ok=value == 0, evidence=evidence)


def check_rdma_cgroup(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that no cgroup limits RDMA resources."""
    paths = host.glob(*_CGROUPS)
    lines = [(path, line) for path in paths for line in (host.read_text(path) or "").splitlines()]
    limited = [f"{path}: {line}" for path, line in lines if any(item[-4:] != "=max" for item in line.split()[1:])]
    if paths:
        yield build_finding("limits-rdma-cgroup", view.node, None, ok=not limited, evidence="; ".join(limited[:3]))
