"""Rung rdma_cm: a connection of the RDMA connection manager by the rail's addresses (rping(1) of rdma-core)."""

from __future__ import annotations

from trackbed.prove.rungs.rung import (
    CLIENT_AFTER_SECONDS,
    ProbedPath,
    Rung,
    RungReading,
    Step,
    choose_server_port,
    explain_programs,
)

_EXCHANGES = "3"


def build_steps(path: ProbedPath) -> tuple[Step, Step]:
    """Return the steps of the client, a, and the server, b."""
    port = str(choose_server_port(path.b))
    client = ["rping", "-c", "-a", path.b.address, "-I", path.a.address, "-p", port, "-C", _EXCHANGES]
    server = ["rping", "-s", "-a", path.b.address, "-p", port, "-C", _EXCHANGES]
    return {"argv": client, "after": CLIENT_AFTER_SECONDS}, {"argv": server}


def read(path: ProbedPath, a: object, b: object) -> RungReading:
    """Return whether the client's exchanges ended well; a connection has no value."""
    reading = explain_programs(path, b, a)
    if path.is_isolated and (reading is None or reading.state == "failed"):
        reached = f"{path.a.node} to {path.b.node} connects, and the Fabric isolates the rails"
        return RungReading("failed", reason=reached) if reading is None else RungReading("measured")
    return reading or RungReading("measured")


RUNG = Rung("rdma_cm", "rdma", "", 6.0, build_steps, read, "rping", tests_isolation=True)
