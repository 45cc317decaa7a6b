"""The agent killed at random moments, its journal torn and damaged, its disk full: no address held twice, none lost."""

import ctypes
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv4Interface
from pathlib import Path
from socket import AF_INET
from typing import Any

import pytest

from tests.examples import count_examples
from tests.node.rails.node import Ended, Node, Pod, inside
from trackbed.kernel.netlink import addresses, links
from trackbed.kernel.netlink.sockets import Socket
from trackbed.node.rails.client import read_status
from trackbed.node.rails.journal import Journal

pytestmark = pytest.mark.needs("root")

SEED = 20261121
PODS = 6
CALLS = count_examples(60)


class Nursery:
    """The process that forks agents, see tests.node.rails.nursery."""

    def __init__(self, node: Node) -> None:
        command = [sys.executable, "-m", "tests.node.rails.nursery"]
        command += map(str, (node.folder / "plan.json", node.state, node.socket, node.netns))
        self._log = (node.folder / "nursery.log").open("wb")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, cwd=Path(__file__).parents[3]
        )
        self._pid = 0

    def start(self, plan: str) -> None:
        """Start an agent that dies as planned."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin
        assert stdout
        stdin.write(f"{plan}\n".encode())
        stdin.flush()
        self._pid = int(stdout.readline())
        assert stdout.readline() == b"ready\n", Path(self._log.name).read_text()

    def kill(self) -> None:
        """Kill it if it still lives, and wait for its end."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        assert self._process.stdout
        assert self._process.stdout.readline() == b"ended\n"

    def close(self) -> None:
        """End it all."""
        self.kill()
        with self._process, self._log:
            assert self._process.stdin
            self._process.stdin.close()


@contextmanager
def _nursery(node: Node) -> Iterator[Nursery]:
    nursery = Nursery(node)
    nursery.start("never 0")
    try:
        yield nursery
    finally:
        nursery.close()


class World:
    """Pods with the results that the runtime got: the answer of an ADD, or None."""

    def __init__(self, node: Node, chance: random.Random, request: dict[str, Any]) -> None:
        self.node = node
        self.results: dict[str, dict[str, Any] | None] = {}
        self.pods = [node.pod() for _ in range(PODS)]
        self._chance = chance
        self._request = request

    def call(self, pod: Pod, *, add: bool) -> bool:
        """One call; whether it was answered. A failure may only be that nobody answered."""
        done = self.node.call("ADD" if add else "DEL", pod, **self._request)
        if done.status:
            assert done.json["code"] == 11, done.printed
            return False
        self.results[pod.container] = done.json if add else None
        return True

    def turn(self) -> tuple[Pod, bool]:
        """Whose turn it is, and whether to ADD; now and then what has been done already."""
        pod = self._chance.choice(self.pods)
        attached = bool(self.results.get(pod.container))
        return pod, not attached if self._chance.random() < 0.9 else attached

    def check(self) -> None:
        """No address twice in the kernel, and each pod has what its runtime was answered."""
        have = {pod.container: _addresses(pod) for pod in self.pods}
        every = [address for addresses in have.values() for address in addresses]
        assert len(every) == len(set(every)), "an address is held twice"
        for pod in self.pods:
            answer = self.results.get(pod.container)
            assert have[pod.container] == ({address["address"] for address in answer["ips"]} if answer else set())

    def empty(self) -> None:
        """Delete all pods: then every address is free, now and after a restart."""
        for pod in self.pods:
            self.node.delete(pod, **self._request)
        self.results.clear()
        self.check()
        status = read_status(self.node.socket)
        assert (status["attachments"], set(status["free"].values())) == ([], {28}), "an address is lost"


def _addresses(pod: Pod) -> set[str]:
    with Socket(netns=pod.path) as sock:
        listed = addresses.list_addresses(sock, AF_INET)
    return {str(IPv4Interface((a.address, a.prefix))) for a in listed if a.index >= 65536}


def _fate(chance: random.Random) -> str:
    kind = chance.choice(["never", "reading", "after"])
    return f"{kind} {chance.randrange(1, 9) if kind == 'reading' else chance.randrange(1, 20_000)}"


def _damage(journal: Path, chance: random.Random) -> None:
    """Tear or change the tail."""
    raw = bytearray(journal.read_bytes())
    if not raw:
        return
    if chance.random() < 0.5:
        del raw[-chance.randrange(1, min(len(raw), 400) + 1) :]
    else:
        raw[-chance.randrange(1, min(len(raw), 400) + 1)] ^= chance.randrange(1, 256)
    journal.write_bytes(raw)


def _live(world: World, nursery: Nursery, chance: random.Random, calls: int, *, damage: bool) -> int:
    """Make calls with agents that die; each unanswered call is made again, or taken back, by the next one."""
    killed = 0
    for _ in range(calls):
        fate = _fate(chance)
        if fate.startswith("never"):
            pod, add = world.turn()
            assert world.call(pod, add=add)
        else:
            nursery.kill()
            nursery.start(fate)
            pod, add = world.turn()
            answered = world.call(pod, add=add)
            nursery.kill()
            if damage and chance.random() < 0.5:
                _damage(world.node.state / "journal", chance)
            nursery.start("never 0")
            if not answered:
                killed += 1
                assert world.call(pod, add=chance.random() < 0.5)
        world.check()
    return killed


@pytest.mark.slow
@pytest.mark.parametrize("damage", [False, True], ids=["killed", "killed and damaged"])
def test_no_address_is_held_twice_and_none_is_lost(node: Node, damage: bool) -> None:
    chance = random.Random(SEED + damage)  # noqa: S311 - it has to come again, not to be a secret
    with _nursery(node) as nursery:
        world = World(node, chance, {})
        killed = _live(world, nursery, chance, CALLS, damage=damage)
        world.empty()
        nursery.kill()
        nursery.start("never 0")
        world.empty()
    assert killed > CALLS // 8


@pytest.mark.slow
def test_no_port_is_lost_when_it_moves(node: Node) -> None:
    chance = random.Random(SEED)  # noqa: S311 - as above
    before = sorted(inside(node.netns).links)
    with _nursery(node) as nursery:
        world = World(node, chance, {"mode": "move", "rails": [0, 3]})
        world.pods = world.pods[:1]
        killed = _live(world, nursery, chance, 25, damage=True)
        node.delete(world.pods[0])
    assert killed > 2
    assert sorted(inside(node.netns).links) == before


@pytest.mark.parametrize("reading", range(1, 8))
def test_an_add_killed_at_the_end_of_any_phase_can_be_asked_again(node: Node, reading: int) -> None:
    with _nursery(node) as nursery:
        nursery.kill()
        nursery.start(f"reading {reading}")
        pod = node.pod()
        assert node.call("ADD", pod).json["code"] == 11
        nursery.kill()
        nursery.start("never 0")
        answer = node.add(pod)
        assert node.call("CHECK", pod, prevResult=answer).status == 0
        assert set(read_status(node.socket)["free"].values()) == {27}


@contextmanager
def _small_disk(folder: Path, size: str) -> Iterator[None]:
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, f"size={size}".encode()) == 0
    try:
        yield
    finally:
        assert libc.umount2(os.fsencode(folder), 2) == 0


@contextmanager
def _full(folder: Path) -> Iterator[None]:
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        for _ in range(1024):
            file.write(bytes(4096))
    yield
    filler.unlink(missing_ok=True)


def test_on_a_full_disk_nothing_new_begins_and_everything_can_end(node: Node) -> None:
    node.state.mkdir()
    with _small_disk(node.state, "256k"):
        agent = node.start()
        attached, pods = [node.pod() for _ in range(3)], [node.pod() for _ in range(20)]
        for pod in attached:
            node.add(pod)
        with _full(node.state):
            refused = _add_until_refused(node, pods)
            assert refused.json["code"] == 103
            assert refused.json["msg"].startswith(f"the journal in {node.state} cannot ")
            assert refused.json["msg"].endswith("No space left on device")
            assert node.call("STATUS").json["code"] == 50
            for pod in (*attached, *pods):
                node.delete(pod)
            assert read_status(node.socket)["attachments"] == []
        assert node.call("STATUS").status == 0
        agent.kill()
        agent = node.start()
        assert set(read_status(node.socket)["free"].values()) == {28}
        node.add(pods[0])
        agent.kill()


def _add_until_refused(node: Node, pods: list[Pod]) -> Ended:
    for pod in pods:
        done = node.call("ADD", pod)
        if done.status:
            assert inside(pod.path).rails == []
            return done
    raise AssertionError("the disk was not full")


def test_killed_on_a_full_disk_it_knows_what_is_free(node: Node) -> None:
    node.state.mkdir()
    with _small_disk(node.state, "256k"):
        agent = node.start()
        pods = [node.pod() for _ in range(20)]
        node.add(pods[0])
        with _full(node.state):
            _add_until_refused(node, pods[1:])
            for pod in pods:
                node.delete(pod)
            agent.kill()
            agent = node.start()
            status = read_status(node.socket)
            assert (status["attachments"], set(status["free"].values())) == ([], {28})
        agent.kill()


def test_a_second_agent_does_not_start(node: Node) -> None:
    node.start()
    with pytest.raises(
        AssertionError, match=r"another agent holds .*/lock; stop it, or give this one a folder of its own"
    ):
        node.start()
    assert node.call("STATUS").status == 0


def test_a_journal_of_rubbish_is_no_reason_not_to_start(node: Node) -> None:
    Journal(node.state).close()
    (node.state / "journal").write_bytes(os.urandom(5000))
    node.start()
    node.add(node.pod())


def test_a_port_that_came_home_as_its_record_was_lost_gets_its_name(node: Node) -> None:
    with Socket(netns=node.netns) as host, _nursery(node) as nursery:
        nursery.kill()
        port = links.get_link(host, "rail3")
        host.send([links.build_set_link(port.index, up=False)])
        host.send([links.build_set_link(port.index, name="trackbed0")])
        nursery.start("never 0")
        assert links.get_link(host, "rail3").index == port.index
