"""`trackbed prove` as users run it, on emulated servers: over SSH, and while a part of it is killed.

ssh              by the servers' sshd, through the lab's channel: sound
killed worker    in round 2: that round is repeated, and nothing else
killed runner    the command itself, in round 2: the same command goes on from there
killed node      reset in round 2: what it missed is repeated once it is back, or not tested; nobody is blamed
"""

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import Any, NamedTuple

import yaml

from trackbed.prove.rungs import write_bw
from trackbed_lab.processes import run_program
from trackbed_lab.run_result import PhaseOutcome
from trackbed_lab.vm.channel import ChannelError, execute_command
from trackbed_lab.vm.lab import VmLabError
from trackbed_lab.vm.machine import locate_shared_folder
from trackbed_lab.vm.run import FABRIC, VmRun

PACKAGES = ("openssh-server",)
"""What servers need besides their tools."""

_RUNG = write_bw.RUNG.name
_SECONDS, _COMMAND_SECONDS = 600.0, 60.0
_INTO_ROUND = 0.45
"""Part of a round from its first answer to the middle of the next one's start."""
_ODD_SHARE = 0.1
"""Share of rates that may be neither right nor wrong enough for a blame, as in module proof."""
_KILL_WORKER = "pkill -KILL -f -- '[-]IS -c'"
_RESET = "echo b >/proc/sysrq-trigger"
_SSHD_CONFIG = """HostKey /run/own/host_key
AuthorizedKeysFile /run/own/key.pub
StrictModes no
UsePAM no
"""
_PREPARE_SSHD = (
    "mkdir -p /run/sshd; id sshd >/dev/null 2>&1 || echo sshd:x:999:65534::/run/sshd:/bin/false >>/etc/passwd"
)
_SSH_CONFIG = """Host *
ProxyCommand {launcher} -- /usr/sbin/sshd -i -f /run/own/sshd_config
User root
IdentityFile "{folder}/key"
IdentitiesOnly yes
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
"""

React = Callable[["subprocess.Popen[str]"], None]


class CommandProof(NamedTuple):
    """What the command printed, and its exit status."""

    document: dict[str, Any]
    events: list[str]
    status: int

    @property
    def repeats(self) -> list[str]:
        """The events of rounds that were repeated."""
        return [event for event in self.events if "is repeated" in event]

    def count(self, *verdicts: str) -> int:
        """Return how many tests have one of these verdicts."""
        rungs = self.document.get("rungs", ())
        return sum(rung["verdicts"][verdict] for rung in rungs for verdict in verdicts)

    def is_sound(self) -> bool:
        """Return whether nobody is blamed and all tests pass but a few."""
        odd = self.count("fail", "unknown", "not-tested")
        return self.document.get("culprits") == [] and odd <= _ODD_SHARE * (odd + self.count("pass", "warn"))

    def summarize(self) -> str:
        """Return what was seen."""
        culprits = [culprit["where"] for culprit in self.document.get("culprits", ())]
        lines = [
            event for event in self.events if any(word in event for word in ("lost", "repeated", "goes on", "no part"))
        ]
        return "; ".join([*culprits, self.document.get("summary", f"exit status {self.status}"), *lines])


def check_ssh(run: VmRun) -> PhaseOutcome:
    """Prove over SSH."""
    folder = Path(run.lab.folder)
    for name in ("key", "host_key"):
        if not (folder / name).exists():
            argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            if (done := run_program(argv, _COMMAND_SECONDS, VmLabError)).returncode:
                raise VmLabError(f"ssh-keygen: {done.stderr.strip()}")
    for node in run.plan.nodes:
        shared = locate_shared_folder(folder, node.name)
        (shared / "host_key").touch(mode=0o600)
        (shared / "host_key").write_bytes((folder / "host_key").read_bytes())
        (shared / "key.pub").write_bytes((folder / "key.pub").read_bytes())
        (shared / "sshd_config").write_text(_SSHD_CONFIG)
    run.run_on_servers(["sh", "-c", _PREPARE_SSHD])
    config = folder / "ssh_config"
    config.write_text(_SSH_CONFIG.format(launcher=shlex.join(_build_launcher(run)), folder=folder))
    proof = _prove(run, ["--user", "root", "--ssh-config", str(config)])
    return proof.summarize(), proof.is_sound()


def check_killed_worker(run: VmRun) -> PhaseOutcome:
    """Kill a worker in round 2."""
    node = run.plan.nodes[1]
    proof = _prove(run, _launch(run), lambda _: _run_script(run, node.name, _KILL_WORKER))
    expected = [f"{_RUNG}: round 2 is repeated for the {len(node.ports)} tests that were lost"]
    return proof.summarize(), proof.is_sound() and proof.repeats == expected


def check_killed_runner(run: VmRun) -> PhaseOutcome:
    """Kill the command in round 2, and run it again."""
    file = Path(run.lab.folder) / "answers.jsonl"
    file.unlink(missing_ok=True)
    words = [*_launch(run), "--answers", str(file)]
    first = _prove(run, words, lambda process: process.kill())
    second = _prove(run, words)
    rounds = [event for event in second.events if event.startswith(f"{_RUNG}: round")]
    goes_on = rounds == [f"{_RUNG}: round {number} of 3" for number in (2, 3)]
    return second.summarize(), first.status < 0 and goes_on and second.is_sound()


def check_killed_node(run: VmRun) -> PhaseOutcome:
    """Reset a server in round 2; whether it is back in time is the machine's affair."""
    node = run.plan.nodes[-1]
    lost = len(node.ports)
    proof = _prove(run, _launch(run), lambda _: _run_script(run, node.name, _RESET))
    rounds = [f"{_RUNG}: round {number} is repeated for the {lost} tests that were lost" for number in (2, 3)]
    is_expected = (proof.repeats, proof.count("not-tested")) in [(rounds, 0), ([], 2 * lost)]
    return proof.summarize(), proof.document.get("culprits") == [] and is_expected


def _build_launcher(run: VmRun) -> list[str]:
    return [sys.executable, "-m", "trackbed", "lab", "vm", "exec", "--stdin", "--dir", run.lab.folder, "%h"]


def _launch(run: VmRun) -> list[str]:
    return ["--launch", shlex.join([*_build_launcher(run), "--"])]


def _run_script(run: VmRun, node: str, script: str) -> None:
    with suppress(ChannelError):  # a server that is reset does not answer
        execute_command(run.lab.find_server(node).channel, ["sh", "-c", script], _COMMAND_SECONDS)


def _prove(run: VmRun, words: Sequence[str], react: React | None = None) -> CommandProof:
    """Run the command; `react` gets its process in round 2."""
    folder = Path(run.lab.folder)
    argv = [sys.executable, "-m", "trackbed", "prove", "-f", _write_fabric(run), "--nodes", "all", "--rungs", _RUNG]
    output, events = folder / "prove.json", list[str]()
    with (
        output.open("wb") as stdout,
        subprocess.Popen(  # noqa: S603 - Trackbed itself
            [*argv, "-o", "json", *words],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        limit = Timer(_SECONDS, process.kill)
        limit.start()
        try:
            for line in process.stderr or ():
                events.append(line.rstrip())
                if react and events[-1] == f"{_RUNG}: round 1 of 3":
                    time.sleep(write_bw.RUNG.seconds * _INTO_ROUND)
                    react(process)
        finally:
            limit.cancel()
    document = json.loads(output.read_text() or "{}")
    return CommandProof(document, events, process.returncode)


def _write_fabric(run: VmRun) -> str:
    """Write the Fabric with the rate that the servers sustain; return its path."""
    folder = Path(run.lab.folder)
    source = locate_shared_folder(folder, run.plan.nodes[0].name) / Path(FABRIC).name
    document = yaml.safe_load(source.read_bytes())
    document["spec"]["rate"] = run.plan.rate_gbps
    path = folder / "fabric.json"
    path.write_text(json.dumps(document))
    return str(path)


CHECKS: dict[str, Callable[[VmRun], PhaseOutcome]] = {
    "ssh": check_ssh,
    "killed worker": check_killed_worker,
    "killed runner": check_killed_runner,
    "killed node": check_killed_node,
}
"""Phase -> what it does."""
