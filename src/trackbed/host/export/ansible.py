"""Ansible: the role `trackbed`, variables of each host, an inventory and a playbook.

    site.yml, inventory.yml             a start; the site's own do as well, with the hosts in group `trackbed`
    host_vars/NODE.yml                  files of one host
    roles/trackbed/defaults/main.yml    files that are the same on all hosts, kernel arguments
    roles/trackbed/...                  what does it, the same for every plan (folder `role` of this package)

Contents are marked `!unsafe`, so that nothing in them is taken for a template.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.export.arguments import arguments, grub_line
from trackbed.host.export.blocks import block, scalar
from trackbed.host.export.files import OWN, HostFile, files, own_expressions
from trackbed.host.formats import Format
from trackbed.host.kinds.arguments import IOMMU
from trackbed.host.kinds.bootloader import GRUB_FILE, OTHER_FILE
from trackbed.host.setting import HEAD

ROLE = "roles/trackbed"

STATIC = ("tasks/main.yml", "tasks/kernel.yml", "handlers/main.yml", "meta/main.yml", "README.md")
"""Files of the role that no plan changes."""

SIGNS = (
    "/run/systemd/system",
    "/etc/kernelstub/configuration",
    "/usr/sbin/grubby",
    "/usr/bin/grubby",
    "/sbin/grubby",
    "/etc/default/grub",
    "/usr/sbin/update-grub",
    "/boot/grub2",
    "/boot/loader/entries",
    OTHER_FILE,
)
"""What a host is asked for: whose presence decides something."""

_SITE = """\
# Written by Trackbed.
- name: Rails are as planned
  hosts: trackbed
  become: true
  gather_facts: false
  roles:
    - trackbed
"""


def render(nodes: Sequence[NodePlan], network: Format) -> Iterator[tuple[str, str]]:
    """Path below the folder of the playbook, and content; one after the other, for there may be thousands."""
    found = {node.name: files(node, network) for node in nodes}
    shared = _shared(list(found.values()))
    yield "site.yml", _SITE
    yield "inventory.yml", _inventory(nodes)
    yield f"{ROLE}/defaults/main.yml", _defaults(nodes[0], shared)
    role = resources.files("trackbed.host.export").joinpath("role")
    for name in STATIC:
        yield f"{ROLE}/{name}", role.joinpath(name).read_text("utf-8")
    everywhere = frozenset(shared)
    for name, own in found.items():
        rest = [file for file in own if file not in everywhere]
        yield f"host_vars/{name}.yml", f"# Written by Trackbed.\n{_files('trackbed_host_files', rest)}"


def _shared(found: Sequence[Sequence[HostFile]]) -> list[HostFile]:
    """Files that are the same on all hosts; of one host alone, none."""
    if len(found) == 1:
        return []
    common = set(found[0]).intersection(*found[1:])
    return [file for file in found[0] if file in common]


def _inventory(nodes: Iterable[NodePlan]) -> str:
    return "# Written by Trackbed.\ntrackbed:\n  hosts:\n" + "".join(f"    {scalar(node.name)}:\n" for node in nodes)


def _defaults(node: NodePlan, shared: Iterable[HostFile]) -> str:
    wanted = arguments(node)
    values = {
        "trackbed_root": "",
        "trackbed_reboot": False,
        "trackbed_kernel": True,
        "trackbed_iommu": bool(wanted and wanted.iommu),
        "trackbed_kernel_arguments": wanted.groups if wanted else (),
        "trackbed_iommu_words": IOMMU,
        "trackbed_grub_file": GRUB_FILE,
        "trackbed_grub_line": grub_line("%s"),
        "trackbed_other_file": OTHER_FILE,
        "trackbed_head": HEAD,
        "trackbed_signs": SIGNS,
        "trackbed_own": own_expressions(),
        "trackbed_folders": sorted({name.partition("*")[0].rpartition("/")[0] for name in OWN}),
    }
    lines = "".join(f"{name}: {json.dumps(value)}\n" for name, value in values.items())
    return f"# Written by Trackbed; see README.md.\n{lines}{_files('trackbed_files', shared)}"


def _files(name: str, found: Iterable[HostFile]) -> str:
    entries = "".join(
        f'  - path: {scalar(file.path)}\n    mode: "{file.mode:04o}"\n    content: !unsafe {block(file.content, 6)}'
        for file in found
    )
    return f"{name}:\n{entries}" if entries else f"{name}: []\n"
