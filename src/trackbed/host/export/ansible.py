"""Ansible: the role `trackbed`, variables of each host, an inventory and a playbook.

    site.yml, inventory.yml             an example; the site may use others, with the hosts in group `trackbed`
    host_vars/NODE.yml                  files of one host
    roles/trackbed/defaults/main.yml    files that are the same on all hosts, kernel arguments
    roles/trackbed/...                  the tasks, which are the same for every plan (folder `role` of this package)

Contents are marked `!unsafe`, so that Ansible does not read them as templates.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.export.arguments import find_arguments, render_grub_line
from trackbed.host.export.blocks import render_block
from trackbed.host.export.files import OWNED_PATHS, HostFile, build_patterns, list_files
from trackbed.host.formats import Format
from trackbed.host.kinds.arguments import IOMMU
from trackbed.host.kinds.bootloader import GRUB_FILE, OTHER_FILE
from trackbed.host.setting import HEAD

ROLE = "roles/trackbed"

STATIC = ("tasks/main.yml", "tasks/kernel.yml", "handlers/main.yml", "meta/main.yml", "README.md")
"""Files of the role that are the same for every plan."""

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
"""Paths by which the role recognises systemd and the boot loader of a host."""

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
    """Yield the path (relative to the playbook's folder) and the content of each file; there may be thousands."""
    files_by_host = {node.name: list_files(node, network) for node in nodes}
    shared = _find_shared_files(list(files_by_host.values()))
    yield "site.yml", _SITE
    yield "inventory.yml", _render_inventory(nodes)
    yield f"{ROLE}/defaults/main.yml", _render_defaults(nodes[0], shared)
    role = resources.files("trackbed.host.export").joinpath("role")
    for name in STATIC:
        yield f"{ROLE}/{name}", role.joinpath(name).read_text("utf-8")
    everywhere = frozenset(shared)
    for name, host_files in files_by_host.items():
        specific = [file for file in host_files if file not in everywhere]
        yield f"host_vars/{name}.yml", f"# Written by Trackbed.\n{_render_files('trackbed_host_files', specific)}"


def _find_shared_files(file_lists: Sequence[Sequence[HostFile]]) -> list[HostFile]:
    """Return the files that are the same on all hosts; empty for a single host."""
    if len(file_lists) == 1:
        return []
    common = set(file_lists[0]).intersection(*file_lists[1:])
    return [file for file in file_lists[0] if file in common]


def _render_inventory(nodes: Iterable[NodePlan]) -> str:
    return "# Written by Trackbed.\ntrackbed:\n  hosts:\n" + "".join(
        f"    {json.dumps(node.name)}:\n" for node in nodes
    )


def _render_defaults(node: NodePlan, shared: Iterable[HostFile]) -> str:
    wanted = find_arguments(node)
    values = {
        "trackbed_root": "",
        "trackbed_reboot": False,
        "trackbed_kernel": True,
        "trackbed_iommu": bool(wanted and wanted.iommu),
        "trackbed_kernel_arguments": wanted.groups if wanted else (),
        "trackbed_iommu_words": IOMMU,
        "trackbed_grub_file": GRUB_FILE,
        "trackbed_grub_line": render_grub_line("%s"),
        "trackbed_other_file": OTHER_FILE,
        "trackbed_head": HEAD,
        "trackbed_signs": SIGNS,
        "trackbed_own": build_patterns(),
        "trackbed_folders": sorted({name.partition("*")[0].rpartition("/")[0] for name in OWNED_PATHS}),
    }
    lines = "".join(f"{name}: {json.dumps(value)}\n" for name, value in values.items())
    return f"# Written by Trackbed; see README.md.\n{lines}{_render_files('trackbed_files', shared)}"


def _render_files(variable_name: str, files: Iterable[HostFile]) -> str:
    entries = "".join(
        f'  - path: {json.dumps(file.path)}\n    mode: "{file.mode:04o}"\n'
        f"    content: !unsafe {render_block(file.content, 6)}"
        for file in files
    )
    return f"{variable_name}:\n{entries}" if entries else f"{variable_name}: []\n"
