"""The questions of `trackbed init --guided`. Each says why it matters; a wrong answer is explained and asked again.

    question ──> answer ──> Draft ──> Fabric and plan of it: a problem is the explanation, else the next question

Nothing is written before the last answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackbed.cli.init_draft import SCHEMES, Draft, render_draft
from trackbed.cli.options import refuse, suggest_name
from trackbed.cli.terminal import print_line

if TYPE_CHECKING:
    from trackbed.fabric.model.servers import CatalogueServer
    from trackbed.fabric.plan.plan import Plan
    from trackbed.host.discover.inventory import Inventory

MAX_ANSWERS = 5
"""Largest number of wrong answers to a question."""
_PCI = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")

_Change = Callable[[Draft, str], Draft]
"""Adds an answer to the draft; raises ValueError with an explanation if the answer is wrong."""


def ask_fabric(inventories: list[Inventory], draft: Draft) -> str:
    """Ask for everything that a Fabric must say; return its text. Too many wrong answers exit with status 2."""
    click.echo("Enter takes the default in brackets. Ctrl-C leaves; nothing is written before the last answer.")
    draft = _ask(
        "name", "The fabric's name stands in labels and resources of the cluster.", _set_name, draft, draft.name
    )
    draft = _ask_hardware(inventories, draft)
    why = "The link layer of the rails; ConnectX NICs can have either, and the switches decide."
    draft = _ask("link layer", why, _set_link_type, draft, draft.link_type)
    why = "The hosts by name, as `hostname -s` and `kubectl get nodes` show them; gpu-[0-63] are 64."
    draft = _ask("hosts", why, _check_plan(lambda now, text: replace(now, hosts=text)), draft, draft.hosts)
    draft = _ask_other_networks(draft)
    draft = _ask_pods(draft)
    why = "All rails share this range, and nothing else in the site may use it. The default is only a proposal."
    draft = _ask("range of the rails", why, _check_plan(lambda now, text: replace(now, ipv4=text)), draft, draft.ipv4)
    return render_draft(_ask_stack(draft))


def _ask(label: str, why: str, change: _Change, draft: Draft, default: str) -> Draft:
    """Ask until an answer fits, MAX_ANSWERS times at most; return the draft with it."""
    click.echo()
    print_line(why)
    changed = next(filter(None, (_try_answer(label, change, draft, default) for _ in range(MAX_ANSWERS))), None)
    if changed is None:
        refuse(f"{MAX_ANSWERS} answers for {label!r} did not fit; nothing was written")
    return changed


def _try_answer(label: str, change: _Change, draft: Draft, default: str) -> Draft | None:
    """Ask once; explain a wrong answer and return None."""
    text = str(click.prompt(label, default=default)).strip()
    try:
        return change(draft, text)
    except ValueError as error:
        for line in str(error).splitlines():
            print_line(f"  {line}")
    return None


def _set_name(draft: Draft, text: str) -> Draft:
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", text):
        raise ValueError("a name has lower case letters, digits and '-', 63 at most, as train")
    return replace(draft, name=text)


def _set_link_type(draft: Draft, text: str) -> Draft:
    if text not in {"ethernet", "infiniband"}:
        raise ValueError("write ethernet (RoCE) or infiniband")
    return replace(draft, link_type=text)


def _ask_hardware(inventories: list[Inventory], draft: Draft) -> Draft:
    here = _describe_machine(draft, inventories) if inventories else None
    why = (
        "The ports of the rails come from a server of the catalogue (`trackbed servers` lists them), from a file of "
        "`trackbed discover -o json` or `trackbed capture`, or are typed as PCI addresses with commas, in rail order."
    )
    if here:
        why += f" The default, this, are the {len(here.ports)} rails that were found."

    def change(now: Draft, text: str) -> Draft:
        return here if here and text == "this" else _describe_hardware(now, text)

    return _ask("hardware", why, change, draft, "this" if here else "dgx-h100")


def _describe_hardware(draft: Draft, text: str) -> Draft:
    from trackbed.fabric.model.servers import load_servers

    server = load_servers().get(text)
    if server and server.ports:
        aside = {nic.role: nic.pci or "" for nic in server.aside if nic.pci}
        management, storage = (
            next((pci for role, pci in aside.items() if word in role), "") for word in ("manage", "stor")
        )
        origin = f"the catalogue's {text}"
        return replace(
            draft,
            origin=origin,
            ports=server.ports,
            nic=server.nic.id,
            gpus=server.gpus.count,
            gpu_resource=server.gpus.resource,
            management=management,
            storage=storage,
        )
    if server:
        raise ValueError(
            f"the PCI addresses of {text} are not published: write them behind its name, as {text} 0000:18:00.0,..., "
            "or run `trackbed discover` on one"
        )
    named, *others = re.split(r"[\s,]+", text.lower())
    server = load_servers().get(named)
    if server and others and all(map(_PCI.fullmatch, others)):
        return _describe_typed_ports(draft, named, server, tuple(others))
    addresses = (named, *others)
    if all(map(_PCI.fullmatch, addresses)):
        return replace(draft, origin="typed PCI addresses", ports=addresses, nic=None, gpus=None)
    if Path(text).exists():
        from trackbed.cli.inventories import read_inventories

        return _describe_found(draft, read_inventories(Path(text)), text)
    hint = suggest_name(
        text, load_servers(), "write a server's name, a file, or addresses as 0000:18:00.0,0000:2a:00.0"
    )
    raise ValueError(f"no server and no file {text!r}{hint}")


def _describe_typed_ports(draft: Draft, name: str, server: CatalogueServer, ports: tuple[str, ...]) -> Draft:
    origin = f"the catalogue's {name} and typed PCI addresses"
    gpus, resource = server.gpus.count, server.gpus.resource
    return replace(draft, origin=origin, ports=ports, nic=server.nic.id, gpus=gpus, gpu_resource=resource)


def _describe_found(draft: Draft, inventories: list[Inventory], origin: str) -> Draft:
    described = _describe_machine(draft, inventories)
    if described is None:
        raise ValueError(f"no NIC in {origin} can be a rail; `trackbed discover --root {origin}` shows why")
    return described


def _describe_machine(draft: Draft, inventories: list[Inventory]) -> Draft | None:
    """Return the draft with the hardware of the first machine; None if it has no rails."""
    from trackbed.fabric.host_ranges import fold_hosts
    from trackbed.host.discover.rails import Role, choose_rails

    machine = inventories[0]
    layout = choose_rails(machine)
    if not layout.rails:
        return None
    roles = {excluded.role: excluded.nic.pci for excluded in reversed(layout.excluded)}
    return replace(
        draft,
        origin=f"the hardware of {machine.host}",
        hosts=fold_hosts(inventory.host for inventory in inventories),
        ports=tuple(rail.nic.pci for rail in layout.rails),
        nic=layout.rails[0].nic.id,
        gpus=len(machine.gpus) or None,
        gpu_resource=machine.gpu_resource,
        link_type=layout.rails[0].nic.link,
        management=roles.get(Role.MANAGEMENT, ""),
        storage=roles.get(Role.STORAGE, ""),
    )


def _ask_other_networks(draft: Draft) -> Draft:
    for role in ("management", "storage"):
        why = f"The NIC for {role} is no rail: pods never get it. Write its PCI address, or none if it is not listed."

        def change(now: Draft, text: str, role: str = role) -> Draft:
            if text != "none" and not _PCI.fullmatch(text.lower()):
                raise ValueError("a PCI address has a domain, as 0000:18:00.0 (`lspci -D`); or write none")
            nic = "" if text == "none" else text.lower()
            changed = replace(now, management=nic) if role == "management" else replace(now, storage=nic)
            if not changed.rails:
                raise ValueError(f"{text} is the only rail; without it no rail is left")
            return _check_plan(lambda _, __: changed)(now, text)

        draft = _ask(f"{role} NIC", why, change, draft, getattr(draft, role) or "none")
        taken = draft.management if role == "management" else draft.storage
        if taken in draft.ports:
            print_line(f"  {taken} is taken out of the rails: {len(draft.rails)} remain")
    why = "Networks for management and storage, with commas, as 192.168.0.0/16: no rail may overlap them."
    return _ask("other ranges", why, _check_plan(_set_ranges), draft, "none")


def _set_ranges(draft: Draft, text: str) -> Draft:
    return replace(draft, other_ranges=() if text == "none" else tuple(re.split(r"[\s,]+", text)))


def _ask_pods(draft: Draft) -> Draft:
    why = (
        "How pods get rails. move: the port itself, one pod a node. sriov: a VF each, in hardware. macvlan: pods share "
        "the port and its RDMA device. The default has several pods a node, each with an RDMA device of its own."
    )

    def change(now: Draft, text: str) -> Draft:
        if text not in SCHEMES:
            raise ValueError(f"there are {', '.join(SCHEMES)}{suggest_name(text, SCHEMES)}")
        return _check_plan(lambda _, __: replace(now, mode=text))(now, text)

    draft = _ask("pods get rails by", why, change, draft, draft.mode)
    if draft.mode != "sriov":
        return draft
    why = "VFs of each port: as many pods fit on a node. 8 is one for each GPU of most servers."
    return _ask("VFs", why, _check_plan(_set_vfs), draft, str(draft.vfs))


def _set_vfs(draft: Draft, text: str) -> Draft:
    if not text.isdecimal() or not int(text):
        raise ValueError("write a number, 1 or more")
    return replace(draft, vfs=int(text))


def _ask_stack(draft: Draft) -> Draft:
    from trackbed.cli.stack_tables import print_candidates
    from trackbed.cluster.stacks import MODULES, load_stack
    from trackbed.cluster.stacks.comparison import compare_stack
    from trackbed.cluster.stacks.recommendation import recommend

    plan = _compute_plan(draft)
    compared = {name: compare_stack(load_stack(name), plan) for name in MODULES}
    advice = recommend(compared.values(), plan)
    click.echo("\nThese stacks fit:")
    print_candidates(compared.values())
    why = "The stack gives the NICs to pods. " + (f"{advice.name}, because {advice.reasons[-2]}." if advice else "")

    def change(now: Draft, text: str) -> Draft:
        if text not in compared:
            raise ValueError(f"no stack {text!r}{suggest_name(text, compared)}")
        if compared[text].refusals:
            raise ValueError("\n".join((f"{text} does not fit:", *compared[text].refusals)))
        return replace(now, stack=text)

    return _ask("stack", why, change, draft, advice.name if advice else draft.stack)


def _check_plan(change: _Change) -> _Change:
    """Return a change that raises ValueError with the problems of the plan."""

    def check(draft: Draft, text: str) -> Draft:
        changed = change(draft, text)
        _compute_plan(changed)
        return changed

    return check


def _compute_plan(draft: Draft) -> Plan:
    from trackbed.fabric.model.load import load_fabric
    from trackbed.fabric.model.problems import SpecError
    from trackbed.fabric.plan.compute import compute_plan

    try:
        return compute_plan(load_fabric(render_draft(draft).encode(), "answers").fabric, {})
    except SpecError as error:
        raise ValueError("\n".join(problem.message for problem in error.problems)) from error
