"""The cases of one run of `attach`: floors, Trackbed, today's delegates, whole pods and Multus."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from trackbed_lab.kubernetes.control_plane import ControlPlaneError

from bench import delegates, floor, kernel, memory, multus, trackbed_case, turns, whole
from bench.cluster import Cluster, cluster
from bench.node import RAILS, Node, node
from bench.peers import Peers
from bench.turns import Case, Counts, Measured

_FLOORS: Final = {"macvlan": floor.macvlan, "move": floor.move}
_DELEGATES: Final = {"macvlan": delegates.macvlan, "move": delegates.move}


@dataclass(frozen=True, slots=True)
class Amount:
    """Numbers of pods: of floor and Trackbed in sequence, of all other cases in sequence, and rounds of ten at once."""

    pods: int
    peer_pods: int
    rounds: int


@dataclass(frozen=True, slots=True)
class _Run:
    """The parts that cases share. `cluster` is None without Multus."""

    node: Node
    amount: Amount
    peers: Peers
    agents: dict[str, trackbed_case.Agent]
    kubelets: dict[str, whole.Kubelet]
    cluster: Cluster | None

    def count(self) -> Counts:
        """Return the requests to kubelets and to the API server so far."""
        counts = {"kubelet calls": sum(kubelet.calls() for kubelet in self.kubelets.values())}
        return counts | (self.cluster.counts() if self.cluster else {})


def measure(state: Path, peers: Peers, amount: Amount) -> Measured:
    """Run every case that can be run. Moves this process into private namespaces for good."""
    kernel.enter_namespaces()
    state.mkdir(parents=True, exist_ok=True)
    made = node(state)
    measured = Measured()
    with contextlib.ExitStack() as stack:
        run = _run(stack, made, peers, amount, measured)
        turns.interleave(made, list(_cases(run, measured.missing)), run.count, measured)
        measured.tcp_sockets = sum(map(trackbed_case.tcp_sockets, run.agents.values()))
    try:
        measured.memory_mb.update(memory.memory(made))
    except turns.FAILURES as error:
        measured.missing["agent's memory"] = f"failed: {error}"
    return measured


def _run(stack: contextlib.ExitStack, made: Node, peers: Peers, amount: Amount, measured: Measured) -> _Run:
    api = _cluster(stack, made, peers, measured.missing)
    run = _Run(made, amount, peers, {}, {}, api)
    for mode in trackbed_case.MODES:
        kubelet = run.kubelets[mode] = whole.start_kubelet(trackbed_case.RUN / f"kubelet-{mode}", mode)
        stack.callback(whole.stop_kubelet, kubelet)
        agent = trackbed_case.start_agent(made, trackbed_case.Wanted(mode, mode, kubelet.folder))
        run.agents[mode] = agent
        stack.callback(trackbed_case.stop, agent)
    return run


def _cluster(stack: contextlib.ExitStack, made: Node, peers: Peers, missing: dict[str, str]) -> Cluster | None:
    why = peers.without
    if peers.programs and not why:
        try:
            running = stack.enter_context(cluster(made.state / "kubernetes", peers.programs))
            multus.networks(made, running)
        except (*turns.FAILURES, ControlPlaneError) as error:
            why = f"failed: {error}"
        else:
            return running
    missing.update((f"pod multus {mode}", why) for mode in trackbed_case.MODES)
    return None


def _cases(run: _Run, missing: dict[str, str]) -> Iterator[Case]:
    many, few = (run.amount.pods, run.amount.rounds), (run.amount.peer_pods, run.amount.rounds)
    macvlan = floor.macvlan(run.node)
    yield Case("floor+exec macvlan", floor.add_exec(macvlan), *few)
    yield Case("one bare move", floor.move_one_port(run.node), run.amount.peer_pods, 0, links=0)
    agent = run.agents["macvlan"]
    phases = partial(trackbed_case.phases, agent)
    yield Case("pod without rails", whole.skip_rails(agent), *many, links=0, counted=True, phases=phases)
    for mode, agent in run.agents.items():
        yield Case(f"floor {mode}", _FLOORS[mode](run.node), *many)
        yield Case(f"trackbed {mode}", trackbed_case.case(agent), *many, phases=partial(trackbed_case.phases, agent))
        if run.peers.folder is None:
            without = f"delegates {mode}", f"pod trackbed {mode}", "pod eth0 alone"
            missing.update(dict.fromkeys(without, run.peers.reason))
            continue
        yield Case(f"delegates {mode}", _DELEGATES[mode](run.peers.folder, run.node), *few)
        yield from _iter_whole_pods(run, mode, run.peers.folder)


def _iter_whole_pods(run: _Run, mode: str, plugins: Path) -> Iterator[Case]:
    few = run.amount.peer_pods, run.amount.rounds
    if mode == "macvlan":
        yield Case("pod eth0 alone", whole.eth0(plugins, run.node), *few, links=1)
    agent = run.agents[mode]
    pod, phases = whole.trackbed(plugins, run.node, agent), partial(trackbed_case.phases, agent)
    yield Case(f"pod trackbed {mode}", pod, *few, links=RAILS + 1, counted=True, phases=phases)
    if run.cluster and run.peers.multus:
        pod = multus.pods((run.peers.multus, plugins), run.node, run.cluster, mode)
        yield Case(f"pod multus {mode}", pod, *few, links=RAILS + 1, counted=True)
