"""MAAS: a commissioning script and tags, by which machines are found that the plan was made for.

Tags are XPath definitions over what lshw saw (`lshw -xml`, which MAAS keeps of each machine), so MAAS sets them itself:

    trackbed-FABRIC      every port of one of the plan's machines is there
    trackbed-FABRIC-0    one kind of machine, where the plan has several

Machines are deployed with the cloud-init user-data (`maas PROFILE machine deploy SYSTEM_ID user_data=...`), which sees
to the kernel arguments too; were they options of a tag as well, two places would have to agree.
(MAAS: "Commissioning scripts", "Tags"; lshw's XML: `businfo` holds pci@ADDRESS, `serial` the MAC address.)
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from trackbed.fabric.plan.plan import NodePlan, PortPlan
from trackbed.host.export.commission import NAME, describe_machine, render_program

MAX_KINDS = 32
"""Limit of tags: machines told apart by MAC address are as many kinds as nodes."""

_HEAD = "# Tags of MAAS; tags.sh makes them.\n"
_NONE = f"""\
# No tags: the Fabric names ports by interface only, or by MAC address on more than {MAX_KINDS} hosts. Give ports by PCI
# address; the commissioning script tells hosts apart all the same.
[]
"""


@dataclass(frozen=True, slots=True)
class Tag:
    """A MAAS tag. `definition` is an XPath 1.0 expression over lshw's XML."""

    name: str
    comment: str
    definition: str


def render(nodes: Sequence[NodePlan]) -> dict[str, str]:
    """Return the content of all files by name; the script and the `.sh` files are executable."""
    every = tuple(build_tags(nodes))
    listed = "".join(_render_yaml(tag) for tag in every)
    return {
        NAME: render_program(nodes),
        "tags.yaml": (_HEAD if every else _NONE) + listed,
        "tags.sh": _render_shell(every),
    }


def build_tags(nodes: Sequence[NodePlan]) -> Iterator[Tag]:
    """Yield the tags of the nodes of one Fabric; none where no port is identified by its hardware."""
    kinds = {repr(describe_machine(node)): node for node in nodes}
    known = [(node, condition) for node in kinds.values() if (condition := _render_ports(node.ports))]
    if not known:
        return
    name = f"trackbed-{nodes[0].common.fabric}"
    if len(known) <= MAX_KINDS:
        every = " or ".join(f"({condition})" for _, condition in known)
        yield Tag(name, f"has the ports of Fabric {nodes[0].common.fabric}", every)
    if 1 < len(known) <= MAX_KINDS:
        for number, (node, condition) in enumerate(known):
            yield Tag(f"{name}-{number}", f"has the ports of {node.name} and its like", condition)


def _render_ports(ports: Sequence[PortPlan]) -> str:
    """Render XPath that matches a machine with all these ports; empty where a port cannot be identified."""
    conditions = [_render_port(port) for port in ports]
    network = '//node[@class="network"]'
    return " and ".join(f"{network}{condition}" for condition in conditions) if all(conditions) else ""


def _render_port(port: PortPlan) -> str:
    if port.pci:
        return f'[businfo="pci@{port.pci}"]'
    return f'[serial="{port.mac.lower()}"]' if port.mac else ""


def _render_yaml(tag: Tag) -> str:
    first, *others = (f"{key}: {json.dumps(value)}\n" for key, value in asdict(tag).items())
    return f"- {first}{''.join(f'  {line}' for line in others)}"


def _render_shell(every: Sequence[Tag]) -> str:
    lines = "".join(f"tag {' '.join(shlex.quote(f'{k}={v}') for k, v in asdict(tag).items())}\n" for tag in every)
    return f"""#!/bin/sh
# Makes or renews the tags and the commissioning script: ./tags.sh PROFILE, after `maas login PROFILE ...`.
set -eu
profile=${{1:?say which profile of the maas command, as in: ./tags.sh admin}}
cd "$(dirname "$0")"
tag() {{ # NAME=... and the other fields
	maas "$profile" tag read "${{1#name=}}" >/dev/null 2>&1 || {{
		maas "$profile" tags create "$@"
		return
	}}
	maas "$profile" tag update "${{1#name=}}" "$@"
}}
{lines}if maas "$profile" node-script read {NAME} >/dev/null 2>&1; then
	maas "$profile" node-script update {NAME} script@={NAME}
else
	maas "$profile" node-scripts create name={NAME} script@={NAME}
fi
"""
