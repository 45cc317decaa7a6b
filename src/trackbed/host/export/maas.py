"""MAAS: a commissioning script, and tags that find the machines of the plan.

A tag is an XPath expression over the hardware list of a machine (`lshw -xml`, stored by MAAS), so MAAS sets it itself:

    trackbed-FABRIC      the machine has every port of one of the plan's machines
    trackbed-FABRIC-0    the machine is of one kind, if the plan has several

Machines are deployed with the cloud-init user-data (`maas PROFILE machine deploy SYSTEM_ID user_data=...`). It also
sets the kernel arguments, so they are not repeated as kernel options of a tag. (MAAS: "Commissioning scripts", "Tags";
lshw's XML: `businfo` holds pci@ADDRESS, `serial` the MAC address.)
"""

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from trackbed.fabric.plan.plan import NodePlan, PortPlan
from trackbed.host.export.commission import NAME, build_machine_document, render_program

MAX_KINDS = 32
"""Maximum number of tags for kinds. If ports are identified by MAC address, every node is a kind of its own."""

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
    listed = "".join(_render_tag_yaml(tag) for tag in every)
    return {
        NAME: render_program(nodes),
        "tags.yaml": (_HEAD if every else _NONE) + listed,
        "tags.sh": _render_tags_script(every),
    }


def build_tags(nodes: Sequence[NodePlan]) -> Iterator[Tag]:
    """Yield the tags for the nodes of one Fabric; none if its ports are not identified by hardware."""
    kinds = {repr(build_machine_document(node)): node for node in nodes}
    known = [(node, condition) for node in kinds.values() if (condition := _render_ports_xpath(node.ports))]
    if not known:
        return
    name = f"trackbed-{nodes[0].common.fabric}"
    if len(known) <= MAX_KINDS:
        every = " or ".join(f"({condition})" for _, condition in known)
        yield Tag(name, f"has the ports of Fabric {nodes[0].common.fabric}", every)
    if 1 < len(known) <= MAX_KINDS:
        for number, (node, condition) in enumerate(known):
            yield Tag(f"{name}-{number}", f"has the ports of {node.name} and its like", condition)


def _render_ports_xpath(ports: Sequence[PortPlan]) -> str:
    """Render XPath that matches a machine with all these ports; empty if a port cannot be identified."""
    conditions = [_render_port_xpath(port) for port in ports]
    network = '//node[@class="network"]'
    return " and ".join(f"{network}{condition}" for condition in conditions) if all(conditions) else ""


def _render_port_xpath(port: PortPlan) -> str:
    if port.pci:
        return f'[businfo="pci@{port.pci}"]'
    return f'[serial="{port.mac.lower()}"]' if port.mac else ""


def _render_tag_yaml(tag: Tag) -> str:
    first, *others = (f"{key}: {json.dumps(value)}\n" for key, value in asdict(tag).items())
    return f"- {first}{''.join(f'  {line}' for line in others)}"


def _render_tags_script(tags: Sequence[Tag]) -> str:
    lines = "".join(f"tag {' '.join(shlex.quote(f'{k}={v}') for k, v in asdict(tag).items())}\n" for tag in tags)
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
