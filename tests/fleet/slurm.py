"""Slurm in network namespaces: a control node with slurmctld and the leaves, and nodes with slurmd and two rails."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import wait_until

NODES = 4
PROGRAMS = ("slurmctld", "slurmd", "srun", "munged", "mpirun")
CONTROL = "ctl"
_CONFIGURATION = """\
ClusterName=train
SlurmctldHost={control}(10.9.0.254)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
NodeName=DEFAULT CPUs=4 RealMemory=500
{nodes}
PartitionName=all Nodes=ALL Default=YES State=UP
"""
_CONTROL_LINKS = """\
link set dev lo up
link add name manage type bridge
link set dev manage up
address add 10.9.0.254/24 dev manage
link add name leaf0 type bridge
link set dev leaf0 mtu 9216 up
link add name leaf1 type bridge
link set dev leaf1 mtu 9216 up
"""
_NODE_LINKS = """\
link set dev lo up
link add name manage type veth peer name manage{number} netns {control}
address add 10.9.0.{number}/24 dev manage
link set dev manage up
link add name rail0 mtu 9000 type veth peer name leaf0-{number} netns {control}
link add name rail1 mtu 9000 type veth peer name leaf1-{number} netns {control}
"""


@dataclass(frozen=True)
class Slurm:
    """A running cluster."""

    folder: Path
    prefix: str
    """Of the names of its network namespaces."""

    def enter(self, host: str) -> list[str]:
        """Return the words that run a command in a host's network."""
        return ["ip", "netns", "exec", f"{self.prefix}{host}"]

    def find_workers(self, node: str) -> list[int]:
        """Return the processes of a proof's worker on a node."""
        done = subprocess.run(
            ["ip", "netns", "pids", f"{self.prefix}{node}"], capture_output=True, text=True, check=True
        )
        return [int(pid) for pid in done.stdout.split() if b"-IS" in _read_words(pid)]

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment in which Slurm's commands find the cluster."""
        return {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf")}


@contextmanager
def running_slurm(folder: Path, addresses: Mapping[str, Sequence[str]]) -> Iterator[Slurm]:
    """Run a cluster; `addresses` has the nodes, and an address with its prefix for each rail."""
    slurm = Slurm(folder, f"t{os.getpid()}-")
    processes: list[subprocess.Popen[bytes]] = []
    _write_files(folder, addresses)
    try:
        _make_networks(slurm, addresses)
        munge = ["munged", "--force", "--foreground", f"--key-file={folder}/munge.key", f"--socket={folder}/munge.sock"]
        munge += [f"--{name}-file={folder}/munge.{name}" for name in ("pid", "log", "seed")]
        processes.append(_start(slurm, CONTROL, munge))
        wait_until((folder / "munge.sock").exists, "munged has no socket")
        processes.append(_start(slurm, CONTROL, ["slurmctld", "-D", "-f", f"{folder}/slurm.conf"]))
        processes += [_start(slurm, node, ["slurmd", "-D", "-f", f"{folder}/slurm.conf"]) for node in addresses]
        wait_until(lambda: _count_idle(slurm) == len(addresses), "slurmctld does not say that all nodes are idle")
        yield slurm
    finally:
        for process in reversed(processes):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for host in (CONTROL, *addresses):
            subprocess.run(["ip", "netns", "delete", f"{slurm.prefix}{host}"], check=False)


def _write_files(folder: Path, nodes: Mapping[str, object]) -> None:
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o400)
    for name in ("state", *(f"spool-{node}" for node in nodes)):
        (folder / name).mkdir()
    lines = [f"NodeName={node} NodeAddr=10.9.0.{number}" for number, node in enumerate(nodes, start=1)]
    text = _CONFIGURATION.format(control=CONTROL, folder=folder, nodes="\n".join(lines))
    (folder / "slurm.conf").write_text(text)
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")  # whose start needs no mounted cgroups


def _make_networks(slurm: Slurm, addresses: Mapping[str, Sequence[str]]) -> None:
    control = f"{slurm.prefix}{CONTROL}"
    _run_ip(control, _CONTROL_LINKS)
    for number, (node, rails) in enumerate(addresses.items(), start=1):
        ends = [f"link set dev manage{number} master manage up"]
        ends += [f"link set dev leaf{rail}-{number} mtu 9216 master leaf{rail} up" for rail in range(len(rails))]
        set_up = [f"address add {address} dev rail{rail}" for rail, address in enumerate(rails)]
        set_up += [f"link set dev rail{rail} up" for rail in range(len(rails))]
        _run_ip(f"{slurm.prefix}{node}", _NODE_LINKS.format(number=number, control=control) + "\n".join(set_up))
        subprocess.run(["ip", "-n", control, "-batch", "-"], input="\n".join(ends), text=True, check=True)


def _run_ip(netns: str, commands: str) -> None:
    """Make a network namespace and run commands of ip(8) there."""
    subprocess.run(["ip", "netns", "add", netns], check=True)
    subprocess.run(["ip", "-n", netns, "-batch", "-"], input=commands, text=True, check=True)


def _start(slurm: Slurm, host: str, argv: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a daemon on a host, which has a name of its own."""
    script = f'hostname {host}; exec "$@" >>{slurm.folder}/{argv[0]}-{host}.log 2>&1'
    words = [*slurm.enter(host), "unshare", "--uts", "sh", "-c", script, "sh", *argv]
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True)


def _count_idle(slurm: Slurm) -> int:
    words = [*slurm.enter(CONTROL), "sinfo", "--noheader", "--states", "idle", "--format", "%D"]
    done = subprocess.run(words, env=slurm.environment, capture_output=True, text=True, timeout=60, check=False)
    return sum(map(int, done.stdout.split()))


def _read_words(pid: str) -> Sequence[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return ()
