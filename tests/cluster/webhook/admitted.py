"""All that follows from a Fabric that the webhook takes, in a process with bounds on time and memory.

Reads Fabrics from stdin, one JSON text a line, and answers each with a line: {} where the schema or the webhook refuses
it, {"admitted": true}, or {"error": ...}. The process is in a network namespace of its own.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import yaml

from tests.cluster.webhook.host_files import check_host_files
from tests.cluster.webhook.requests import request
from tests.host.places import enable, everything
from tests.host.trees import everything_below, grow, nic
from tools.pages.crds import iter_crds
from trackbed.cluster.stacks import MODULES, load_stack
from trackbed.cluster.stacks.install.bundle import render_bundle
from trackbed.cluster.stacks.install.steps import ApplyFile, build_steps
from trackbed.cluster.stacks.refusals import find_refusals
from trackbed.cluster.webhook.cluster_state import ClusterRanges, ClusterState
from trackbed.cluster.webhook.fabrics import decide, plan_fabric
from trackbed.fabric.plan.node_document import decode_node, encode_node
from trackbed.fabric.plan.plan import NodePlan, Plan
from trackbed.fabric.plan.plan_file import decode_plan, encode_plan
from trackbed.host.export import ansible, autoinstall, cloud_init, maas
from trackbed.host.export.archive import build_archive
from trackbed.host.export.arguments import CPUS
from trackbed.host.kinds import file
from trackbed.host.machine import Machine
from trackbed.host.render import FORMATS
from trackbed.host.steps import iter_settings
from trackbed.host.transaction.apply import apply, undo
from trackbed.kernel.netlink.links import VethEnd, build_create_veth, build_delete_link, build_set_link, list_links
from trackbed.switches.dialects import MODULES as DIALECTS
from trackbed.switches.dialects import load_dialect
from trackbed.switches.leaf import check_leaves, derive_leaves
from trackbed.switches.wiring import Wiring

SECONDS, BYTES = 10.0, 512 << 20
"""Bounds of each step: CPU time, and memory of the process."""
_SCHEMA = next(crd for crd in iter_crds() if crd["spec"]["names"]["kind"] == "Fabric")["spec"]["versions"][0]["schema"]


class _Loader(yaml.CSafeLoader):
    """YAML, with Ansible's tag of a text that is no template."""


def _construct_text(loader: yaml.CSafeLoader, node: yaml.Node) -> object:
    assert isinstance(node, yaml.ScalarNode)
    return loader.construct_scalar(node)


_Loader.add_constructor("!unsafe", _construct_text)
_load_all = partial(yaml.load_all, Loader=_Loader)


_read_scripts: set[bytes] = set()
"""Digests of scripts that a shell has read."""


def main() -> None:
    """Answer Fabrics until stdin ends."""
    _unshare_network()
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    signal.signal(signal.SIGPROF, _stop)
    is_valid = jsonschema_rs.validator_for({**_SCHEMA["openAPIV3Schema"], "additionalProperties": True}).is_valid
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line), is_valid)), flush=True)  # noqa: T201 - this is the answer


def _unshare_network() -> None:
    clone_newnet = 0x40000000
    if ctypes.CDLL(None, use_errno=True).unshare(clone_newnet):
        raise OSError(ctypes.get_errno(), "no network namespace")
    for key, value in {"addr_gen_mode": "1", "accept_dad": "0"}.items():
        Path(f"/proc/sys/net/ipv6/conf/default/{key}").write_text(value)


def _stop(*_: object) -> None:
    raise TimeoutError(f"more than {SECONDS} s of CPU time")


def _answer(body: dict[str, Any], is_valid: Callable[[object], bool]) -> dict[str, Any]:
    if not is_valid({key: value for key, value in body.items() if key != "metadata"}):
        return {"refusal": "schema"}
    try:
        verdict = bound(partial(decide, request(body), ClusterState()))
        if verdict.refusal is not None:
            return {"refusal": verdict.refusal}
        bound(partial(check_fabric, body))
    except BaseException:  # noqa: BLE001 - the test shows it
        return {"error": traceback.format_exc()[-3000:]}
    return {"admitted": True}


def bound(step: Callable[[], Any]) -> Any:
    """Run a step with a limit of CPU time."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        return step()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def check_fabric(body: dict[str, Any]) -> None:
    """Plan it, read the plan back, render it for everything, and apply it."""
    plan = plan_fabric(body, {}, ClusterRanges()).plan
    assert decode_plan(encode_plan(plan, plan.nodes))._replace(warnings=plan.warnings) == plan
    nodes = [plan.nodes[0], plan.nodes[-1]][: len(plan.nodes)]
    for node in nodes:
        assert decode_node(encode_node(node)) == node
        bound(partial(check_host, node))
    bound(partial(check_exports, nodes))
    for name in DIALECTS:
        bound(partial(check_switches, name, plan))
    for name in MODULES:
        bound(partial(check_stack, name, plan))
    bound(partial(check_apply, nodes[0]))


def check_host(node: NodePlan) -> None:
    """All files of a host have the intended commands, directives and keys."""
    wanted = [setting.want for setting in iter_settings(node)]
    files = {want.path: want.content for want in wanted if isinstance(want, file.Want)}
    check_host_files(node, files)
    for render in FORMATS.values():
        check_host_files(node, render(node))
    scripts = [text for path, text in files.items() if path.endswith(".sh")]
    check_scripts(scripts)


def check_scripts(scripts: list[str]) -> None:
    """A shell reads each of them."""
    for text in scripts:
        digest = hashlib.sha256(text.encode()).digest()
        if digest in _read_scripts:
            continue
        result = subprocess.run(["sh", "-n"], input=text, capture_output=True, text=True, timeout=60, check=False)
        assert (result.returncode, result.stderr) == (0, ""), result.stderr
        _read_scripts.add(digest)


def check_exports(nodes: list[NodePlan]) -> None:
    """Files for tools that build hosts are YAML, and have the hosts' files as they are."""
    for number, network in enumerate(FORMATS):
        node = nodes[number % len(nodes)]
        data = load_one(cloud_init.render_user_data(node, network))
        contents = {entry["path"]: entry["content"] for entry in data["write_files"]}
        assert contents.items() >= FORMATS[network](node).items()
        assert load_one(cloud_init.render_meta_data(node))["local-hostname"] == node.name
    assert set(load_one(autoinstall.render_user_data(nodes[0], "netplan"))) == {"autoinstall"}
    build_archive(nodes[0], "netplan", next(iter(CPUS.values())))
    texts = {**maas.render(nodes), **dict(ansible.render(nodes, "netplan"))}
    for path, text in texts.items():
        if path.endswith((".yml", ".yaml")):
            list(_load_all(text))
    check_scripts([text for path, text in texts.items() if path.endswith(".sh")])
    hosts = load_one(texts["inventory.yml"])
    assert {node.name for node in nodes} <= set(find_keys(hosts)), hosts


def load_one(text: str) -> Any:
    """The only document of a YAML text."""
    (document,) = _load_all(text)
    return document


def find_keys(value: object) -> Iterator[object]:
    """All keys at any depth."""
    if isinstance(value, Mapping):
        yield from value
        for inner in value.values():
            yield from find_keys(inner)


def check_switches(name: str, plan: Plan) -> None:
    """Leaves are rendered, and read back by the same dialect under the name they have."""
    dialect = load_dialect(name)
    wiring = Wiring(dialect.list_ports(512))
    if check_leaves(plan, wiring):
        return
    for leaf in derive_leaves(plan, wiring):
        raw = dialect.render(leaf).encode()
        assert dialect.recognizes(raw)
        assert dialect.read_hostname(dialect.parse(raw)) == leaf.name


def check_stack(name: str, plan: Plan) -> None:
    """A stack that takes the plan gives objects that read back from YAML as they are, scripts and XML that parse."""
    stack = load_stack(name)
    if list(find_refusals(stack, plan)):
        return
    texts = {path: "".join(pieces) for path, pieces in render_bundle(stack, plan)}
    objects = {step.file: list(step.objects) for step in build_steps(stack, plan) if isinstance(step, ApplyFile)}
    for path, text in texts.items():
        if path.endswith((".yaml", ".yml")):
            documents = list(_load_all(text))
            if path in objects:
                assert documents == msgspec.json.decode(msgspec.json.encode(objects[path])), path
        elif path.endswith(".xml"):
            ET.fromstring(text)  # noqa: S314 - we wrote it a moment ago
    check_scripts([text for path, text in texts.items() if path.endswith(".sh")])


def check_apply(node: NodePlan) -> None:
    """Apply writes what it wants to a tree and a network, and undo restores both.

    The ports are veths, which have no PCI address; they are selected by their MAC address instead.
    """
    ports = (
        port._replace(pci=None, mac=port.mac or f"02:00:00:00:00:{port.rail:02x}") if port.pci else port
        for port in node.ports
    )
    node = node._replace(ports=tuple(ports))
    folder = Path(tempfile.mkdtemp())
    machine = Machine(folder / "root", None)
    try:
        machine.root.mkdir()
        grow(machine.root, {"/usr/lib/systemd/system/multi-user.target": ""})
        enable(machine.root, "systemd-networkd.service")
        _cable(machine, node)
        before = everything(machine), _read_tree(machine.root)
        records = machine.root / "var/lib/trackbed"
        applied = apply(machine, iter_settings(node), records, FORMATS["networkd"](node))
        check_host_files(node, {change.path: machine.locate(change.path).read_text() for change in applied.files})
        assert undo(machine, records) == ()
        after = everything(machine), _read_tree(machine.root)
        assert after == before, [str(pair)[:800] for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    finally:
        _uncable(machine)
        shutil.rmtree(folder)


def _read_tree(root: Path) -> dict[str, tuple[str, int]]:
    return {path: (text.strip(), mode) for path, (text, mode) in everything_below(root).items()}


def _cable(machine: Machine, node: NodePlan) -> None:
    """Make each port of a node, under the name that it has before the plan."""
    for port in node.ports:
        name = port.kernel_name or (f"was{port.rail}" if port.mac else port.netdev)
        pair = build_create_veth(VethEnd(name, mac=port.mac), VethEnd(f"far-{port.rail}"))
        with machine.open_socket() as sock:
            sock.send([pair])
            ends = {link.name: link.index for link in list_links(sock)}
            sock.send([build_set_link(ends[f"far-{port.rail}"], up=True)])
        nic(machine.root, name, f"0000:18:{port.rail // 8:02x}.{port.rail % 8}", total=256)


def _uncable(machine: Machine) -> None:
    with machine.open_socket() as sock:
        for link in list_links(sock):
            if link.name.startswith("far-"):
                sock.send([build_delete_link(link.index)])


if __name__ == "__main__":
    main()
