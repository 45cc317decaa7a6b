"""Simulated hosts of a proof: they answer the steps of sheets as a fabric with these faults would."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import ip_address
from typing import Any

from trackbed.fabric.model.fabric import Fabric
from trackbed.fabric.model.ranges import format_address
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import Plan
from trackbed.prove.proof import Proof, prove
from trackbed.prove.rungs import LADDER
from trackbed.prove.sheets import Answers, Sheet

RATE_GBPS, SOUND_GBPS, SMALL_MTU = 400, 390, 1500
Lost = Callable[[Sheet, str, int], bool]
"""Whether the answer of a node to a step of a sheet is lost."""


def build_plan(
    nodes: int, units: int = 4, rails: int = 2, cross_rail: str = "routed", ip: str = "10.64.0.0/14"
) -> Plan:
    """Return the plan of a fabric with `units` nodes in a unit."""
    spec = {
        "nodes": [{"hosts": f"n[1-{nodes}]"}],
        "rails": rails,
        "nodesPerUnit": units,
        "routing": {"crossRail": cross_rail},
        "addressing": {"scheme": "point-to-point", "ipv6" if ":" in ip else "ipv4": ip},
    }
    document = {"apiVersion": "trackbed.dev/v1alpha1", "kind": "Fabric", "metadata": {"name": "f"}, "spec": spec}
    return compute_plan(Fabric.model_validate(document), {})


@dataclass
class Hosts:
    """What is wrong with the ports of a plan, by node and rail."""

    plan: Plan
    small_mtu: Collection[tuple[str, int]] = ()
    silent: Collection[tuple[str, int]] = ()
    without_gid: Collection[tuple[str, int]] = ()
    without_rate: Collection[tuple[str, int]] = ()
    gbps: Mapping[tuple[str, int], float] = field(default_factory=dict)
    missing: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unreachable: Mapping[str, str] = field(default_factory=dict)
    without_rail: Collection[tuple[str, int]] = ()
    """Rails that pods are not given."""
    isolated: bool = False
    gpu_gbps: Mapping[tuple[str, int], float] = field(default_factory=dict)
    """Rates between memories of GPUs, where they are less than between those of hosts."""
    gpus: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Files by which drivers show GPUs, of each node."""
    counters: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """How much `out_of_sequence` rises during the run."""
    sheets: list[Sheet] = field(default_factory=list)

    def prove(
        self,
        mode: str = "screen",
        rungs: Sequence[str] = LADDER,
        lost: Lost = lambda *_: False,
        *,
        in_pods: bool = False,
        share: float = 1.0,
    ) -> Proof:
        """Run a proof to its end."""
        return self.drive(prove(self.plan, mode, rungs, in_pods=in_pods, share=share), lost)

    def drive(self, run: Generator[Sheet, Answers, Proof], lost: Lost = lambda *_: False) -> Proof:
        """Answer the sheets of a proof to its end."""
        sheet = next(run)
        while True:
            self.sheets.append(sheet)
            steps = [
                (node, step_id, step)
                for tests in sheet.rounds
                for node, numbered in tests.steps.items()
                for step_id, step in numbered
                if node not in self.unreachable and not lost(sheet, node, step_id)
            ]
            outputs = {step_id: self.answer(node, step) for node, step_id, step in steps}
            try:
                sheet = run.send(Answers(outputs, self.unreachable))
            except StopIteration as end:
                proof: Proof = end.value
                return proof

    def answer(self, node: str, step: Mapping[str, Any]) -> object:
        """Return what a node answers to a step."""
        if "links" in step:
            return {"links": list(self._list_links(node))}
        if "files" in step:
            return self._read_files(node, step["files"])
        if "pings" in step:
            return {"pings": [self._ping(ping) for ping in step["pings"]]}
        if "stream" in step:
            return self._receive(step["stream"])
        return self._run(node, step)

    def _list_links(self, node: str) -> Iterator[Mapping[str, str]]:
        """Yield what a pod has: the planned addresses, on interfaces with names of their own."""
        for address, (owner, rail) in self._ports.items():
            if owner == node and (node, rail) not in self.without_rail:
                yield {"netdev": f"net{rail + 1}", "address": address, "rdma": f"rail{rail}"}

    def _read_files(self, node: str, patterns: Sequence[str]) -> object:
        if not any("/rail" in pattern for pattern in patterns):
            return {"files": self.gpus.get(node, {}), "missing": []}
        rail = int(patterns[0].split("/rail")[1][0])
        device = f"/sys/class/infiniband/rail{rail}"
        address = next(address for address, port in self._ports.items() if port == (node, rail))
        gid = ip_address("::" if (node, rail) in self.without_gid else f"::ffff:{address}").exploded
        rise = self.counters.get((node, rail), 0) if len(self.sheets) > 1 else 0
        texts = {
            f"{device}/ports/1/gids/3": gid,
            f"{device}/ports/1/gid_attrs/types/3": "RoCE v2",
            f"{device}/ports/1/rate": "" if (node, rail) in self.without_rate else f"{RATE_GBPS} Gb/sec (4X NDR)",
            f"{device}/ports/1/hw_counters/out_of_sequence": str(7 + rise),
        }
        return {"files": texts, "missing": list(self.missing.get(node, ()))}

    def _ping(self, ping: Mapping[str, Any]) -> Mapping[str, Any]:
        ends = {self._ports[ping["source"]], self._ports[ping["target"]]}
        is_cross = len({rail for _, rail in ends}) > 1
        is_lost = (is_cross and self.isolated) or not ends.isdisjoint(self.silent)
        is_lost |= ping["payloadBytes"] > SMALL_MTU and not ends.isdisjoint(self.small_mtu)
        return {"outcome": "silent" if is_lost else "answered", "rttMs": 0.1}

    def _receive(self, stream: Mapping[str, Any]) -> Mapping[str, Any]:
        ends = (self._ports[stream["source"]], self._ports[stream["target"]])
        received = min(self.gbps.get(end, SOUND_GBPS) for end in ends) * 1e9 / 8 * stream["seconds"]
        return {"receivedBytes": received, "seconds": stream["seconds"], "segmentBytes": 1e9}

    def _run(self, node: str, step: Mapping[str, Any]) -> object:
        argv, ended = step["argv"], {"status": 0, "stdout": "", "stderr": ""}
        if "relay" not in step:  # a server, or rping
            return ended
        ends = ((node, int(argv[2].removeprefix("rail"))), self._ports[step["relay"]["target"]])
        limit = float(argv[argv.index("--rate_limit") + 1]) if "--rate_limit" in argv else RATE_GBPS
        rate = 2 * min(limit, *(self.gbps.get(end, SOUND_GBPS) for end in ends))
        test = "RDMA_Write_Bidirectional_BW_Test" if argv[0] == "ib_write_bw" else "RDMA_Write_Latency_Test"
        results = {"BW_average": rate} if argv[0] == "ib_write_bw" else {"t_typical": 2.0}
        info: dict[str, object] = {"test": test, "Device": argv[2]}
        if any(word.startswith("--use_cuda_bus_id=") for word in argv):
            info["cuda_device"] = 0
            results["BW_average"] = min(rate, 2 * min(self.gpu_gbps.get(end, SOUND_GBPS) for end in ends))
        document = {"test_info": info, "results": results}
        return {**ended, "stderr": json.dumps(document)}

    @cached_property
    def _ports(self) -> dict[str, tuple[str, int]]:
        return {
            format_address(4, port.v4.address): (node.name, port.rail)
            for node in self.plan.nodes
            for port in node.ports
            if port.v4
        }
