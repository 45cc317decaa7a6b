"""cloud-init user-data: a host that boots from an image writes its files at the first boot, then reboots once.

cloud-init may merge the document with others: its lists are appended to those of the site's user-data (`merge_how`).
cloud-init reboots (`power_state`) once for each instance, because names of ports, kernel arguments and module options
take effect at a boot. (cloud-init reference: Cloud config modules write_files, runcmd, power_state; datasource NoCloud
for `meta-data`.)
"""

import json

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.export.arguments import find_arguments, render_script
from trackbed.host.export.blocks import render_block
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
    """Render the cloud-config document of a node."""
    head = f"#cloud-config\n# Node {node.name} of Fabric {node.common.fabric}, written by Trackbed.\n"
    written = "".join(_render_file(file) for file in list_files(node, network))
    return f"{head}{MERGE}write_files:\n{written}{_render_runcmd(node)}{_REBOOT}"


def render_meta_data(node: NodePlan) -> str:
    """Render NoCloud's meta-data; the host name is the node's name in the plan."""
    return f"instance-id: {json.dumps(node.name)}\nlocal-hostname: {json.dumps(node.name)}\n"


def _render_file(file: HostFile) -> str:
    return (
        f"  - path: {json.dumps(file.path)}\n    owner: root:root\n    permissions: '{file.mode:04o}'\n"
        f"    content: {render_block(file.content, 6)}"
    )


def _render_runcmd(node: NodePlan) -> str:
    wanted = find_arguments(node)
    return f"runcmd:\n  - - sh\n    - -c\n    - {render_block(render_script(wanted), 6)}" if wanted else ""
