"""netplan files for the tests of the importer: the example site, and sites rendered from a Fabric."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from trackbed.fabric.importers.netplan import import_netplan
from trackbed.fabric.importers.registry import load_source
from trackbed.fabric.importers.result import ImportResult
from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import Plan
from trackbed.host.formats import Format
from trackbed.host.render import FORMATS

EXAMPLE = Path(__file__).parents[3] / "examples" / "spectrum-x-64"

Files = dict[str, list[tuple[str, bytes]]]
Addresses = dict[tuple[str, str], tuple[str, str | None]]


def example(*numbers: int) -> Files:
    """Return the files of the example site, or of some hosts by number."""
    paths = [EXAMPLE / f"worker-gpu-{n}.yaml" for n in numbers] or sorted(EXAMPLE.glob("*.yaml"))
    return {path.stem: [(path.name, path.read_bytes())] for path in paths}


def changed(files: Files, host: str, change: Callable[[dict[str, Any]], object]) -> Files:
    """Return the files with the `ethernets` of one host changed in place by `change`."""
    document = yaml.safe_load(files[host][0][1])
    change(document["network"]["ethernets"])
    return {**files, host: [(f"{host}.yaml", yaml.safe_dump(document, sort_keys=False).encode())]}


def every(files: Files, change: Callable[[dict[str, Any]], object]) -> Files:
    """Return the files with the `ethernets` of every host changed."""
    for host in files:
        files = changed(files, host, change)
    return files


def planned(fabric: str) -> Plan:
    """Plan a Fabric with the given YAML as `spec`."""
    head = "apiVersion: trackbed.dev/v1alpha1\nkind: Fabric\nmetadata: {name: train}\nspec:\n"
    return compute_plan(load_fabric((head + fabric).encode(), "fabric.yaml").fabric, {})


def rendered(fabric: str, source: Format = "netplan") -> Files:
    """Return the files that Trackbed renders for a Fabric, of the kind that a source reads."""
    is_file = load_source(source).is_file
    written = {node.name: FORMATS[source](node) for node in planned(fabric).nodes}
    return {
        host: [(path, text.encode()) for path, text in files.items() if is_file(PurePosixPath(path))]
        for host, files in written.items()
    }


def plain(hosts: Mapping[str, Mapping[str, str]]) -> Files:
    """Return one file for each host: {host: {interface: YAML of its entry}}."""
    head = "network:\n  version: 2\n  ethernets:\n"
    return {
        host: [(f"{host}.yaml", (head + "".join(f"    {name}: {entry}\n" for name, entry in entries.items())).encode())]
        for host, entries in hosts.items()
    }


def addresses(plan: Plan, version: int = 4) -> Addresses:
    """Return (node, interface) -> (address/prefix, gateway) of all ports in one IP version."""
    by_port: Addresses = {}
    for node in plan.nodes:
        for port in node.ports:
            addressing = port.v4 if version == 4 else port.v6
            if addressing is not None:
                gateway = (
                    str(addressing.with_address(addressing.gateway)).partition("/")[0] if addressing.gateway else None
                )
                by_port[node.name, port.netdev] = (str(addressing), gateway)
    return by_port


def plan_of(imported: ImportResult) -> Plan:
    """Return the plan of an imported Fabric."""
    return compute_plan(imported.fabric, imported.lock)


def codes(imported: ImportResult) -> list[str]:
    """Return the codes of all problems except notes."""
    return [problem.code for problem in imported.problems if problem.severity != "note"]


__all__ = ["EXAMPLE", "Files", "addresses", "changed", "codes", "every", "example", "import_netplan", "plain",
           "plan_of", "planned", "rendered"]  # fmt: skip
