"""Two small emulated servers that tests share, and what they must look like."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from trackbed_lab.vm import accelerator, doctor, lab, parts
from trackbed_lab.vm.channel import CommandResult, execute_command
from trackbed_lab.vm.machine import LabShape, locate_shared_folder

from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import Plan
from trackbed.host.kinds import file
from trackbed.host.render import FORMATS
from trackbed.host.steps import iter_settings

SECONDS = 400.0
FABRIC = """\
apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {{name: small}}
spec:
  nodes: [{{hosts: "{hosts}", ports: [{{pci: "0000:11:00.0"}}, {{pci: "0000:81:00.0"}}]}}]
  rails: 2
  addressing: {{scheme: shared-subnet, ipv4: {ipv4}}}
  mtu: {mtu}
  vfs: {{count: {vfs}}}
  rdma: {{namespaceMode: shared}}
  kernel: {{iommu: passthrough, hugepages: [{{size: 2M, count: {pages}}}]}}
  otherRanges: {{docker: []}}
"""
USUAL = FABRIC.format(hosts="node-[0-1]", ipv4="10.64.0.0/15", mtu=9000, vfs=2, pages=16)
OTHER = FABRIC.format(hosts="node-[0-1]", ipv4="10.80.0.0/15", mtu=4200, vfs=1, pages=8)
"""The same servers, with everything that can differ."""

ALONE = {
    f"node-{n}": FABRIC.format(hosts=f"node-{n}", ipv4=f"10.{96 + 16 * n}.0.0/15", mtu=9000, vfs=2, pages=16)
    for n in (0, 1)
}
"""Each server a Fabric of its own: what is broken in one does not trouble the other."""


def wanted(shape: LabShape) -> lab.LabSpec:
    """Servers to stand up; skips where there can be none and CI does not insist."""
    requirements = doctor.check_machine(2 * shape.memory)
    missing = [f"{item.name}: {item.evidence}; {item.todo}" for item in requirements if not item.ok]
    if missing:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"no emulated servers here: {'; '.join(missing)}")
    fetched = parts.fetch_parts(print)
    return lab.LabSpec(fetched, replace(shape, accelerator=accelerator.choose_accelerator(fetched).accelerator))


def small(folder: Path) -> Iterator[lab.VmLab]:
    """Two servers with two rails, from factory state."""
    leaves = [[port.leaf for port in node.ports] for node in planned(USUAL).nodes]
    here = lab.start_lab(folder, wanted(LabShape(servers=2, rails=2, memory=1024, leaves=leaves)), print, SECONDS)
    try:
        yield here
    finally:
        lab.stop_lab(folder)


def planned(text: str) -> Plan:
    """The plan of a Fabric."""
    return compute_plan(load_fabric(text.encode(), "fabric.yaml").fabric, {})


def place(here: lab.VmLab, text: str, name: str) -> str:
    """Put a Fabric where the servers see it; its path there."""
    for server in here.servers:
        (locate_shared_folder(Path(here.folder), server.channel.name) / name).write_text(text)
    return f"/run/own/{name}"


def trackbed(here: lab.VmLab, node: str, *words: str) -> CommandResult:
    """Run `trackbed` in a server."""
    return execute_command(here.find_server(node).channel, [sys.executable, "-m", "trackbed", *words], SECONDS)


def answer(here: lab.VmLab, node: str, *words: str) -> dict[str, Any]:
    """The document that `trackbed ... -o json` prints in a server."""
    done = trackbed(here, node, *words, "-o", "json")
    assert done.status in {0, 1}, done
    assert done.output, done
    document: dict[str, Any] = json.loads(done.output)
    return document


def apply_fabric(here: lab.VmLab, node: str, fabric: str) -> None:
    """Apply a Fabric in a server, also one that replaces another's, as a person does who has read the differences."""
    answer(here, node, "apply", "-f", fabric, "--removals", count_removals(here, node, fabric), "--yes")


def count_removals(here: lab.VmLab, node: str, fabric: str) -> str:
    """The number of removals that `diff` shows."""
    return str(answer(here, node, "diff", "-f", fabric)["totals"]["remove"])


def files(text: str, node: str) -> dict[str, str]:
    """Path -> content of every file that a Fabric puts on a server."""
    of = next(node_plan for node_plan in planned(text).nodes if node_plan.name == node)
    own_files = {
        setting.want.path: setting.want.content for setting in iter_settings(of) if isinstance(setting.want, file.Want)
    }
    return own_files | FORMATS["networkd"](of)


def both(here: lab.VmLab, work: Any) -> list[Any]:
    """Do something with each server at once."""
    names = [server.channel.name for server in here.servers]
    with ThreadPoolExecutor(len(names)) as pool:
        return list(pool.map(work, names))
