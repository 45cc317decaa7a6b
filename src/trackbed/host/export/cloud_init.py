"""cloud-init user-data: a host that comes from an image writes its files at its first boot, then boots once more.

The document is one of several that cloud-init may merge: its lists are appended to those of the site's own user-data
(`merge_how`). The reboot is cloud-init's own (`power_state`), once for each instance: names of ports, kernel arguments
and module options count from a boot. (cloud-init reference: Cloud config modules write_files, runcmd, power_state;
datasource NoCloud for `meta-data`.)
"""

from __future__ import annotations

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.export.arguments import find_arguments, render_script
from trackbed.host.export.blocks import render_block, render_scalar
from trackbed.host.export.files import HostFile, list_files
from trackbed.host.formats import Format

MERGE = """\
merge_how:
  - {name: list, settings: [append]}
  - {name: dict, settings: [no_replace, recurse_list]}
"""

_REBOOT = """\
power_state:
  mode: reboot
  message: "Trackbed: names, kernel arguments and VFs of the rails come with this boot"
"""


def render_user_data(node: NodePlan, network: Format) -> str:
    """Render a cloud-config document for this node."""
    head = f"#cloud-config\n# Node {node.name} of Fabric {node.common.fabric}, written by Trackbed.\n"
    written = "".join(_render_file(file) for file in list_files(node, network))
    return f"{head}{MERGE}write_files:\n{written}{_render_runcmd(node)}{_REBOOT}"


def render_meta_data(node: NodePlan) -> str:
    """Render NoCloud's meta-data; the host name is the node's name in the plan."""
    return f"instance-id: {render_scalar(node.name)}\nlocal-hostname: {render_scalar(node.name)}\n"


def _render_file(file: HostFile) -> str:
    return (
        f"  - path: {render_scalar(file.path)}\n    owner: root:root\n    permissions: '{file.mode:04o}'\n"
        f"    content: {render_block(file.content, 6)}"
    )


def _render_runcmd(node: NodePlan) -> str:
    wanted = find_arguments(node)
    return f"runcmd:\n  - - sh\n    - -c\n    - {render_block(render_script(wanted), 6)}" if wanted else ""
