"""DRANET in the lab: claims by the real scheduler, ports moved by NRI.

The published chart and image are made of the commit of a release; here they are of the commit that the folder of
programs names, so the image's tag is an option of helm. The driver does not look for a cloud: nodes have no way out of
this machine, and a cloud's metadata would be asked for until the time is over. NFD, which labels the nodes, is the
site's: it comes with the GPU operator where there is one.
"""

from dataclasses import replace

from trackbed.cluster.stacks.releases import choose_release
from trackbed_lab.kubernetes.blocking import BlockingClient
from trackbed_lab.kubernetes.images import ImageSpec
from trackbed_lab.kubernetes.programs import Program
from trackbed_lab.kubernetes.stacks import network_operator, sriov_operator
from trackbed_lab.kubernetes.stacks.image_parts import build_script_image
from trackbed_lab.kubernetes.stacks.lab_stack import ImageParts, LabStack

_COMPONENT = "dranet"
_CHART = "oci://registry.k8s.io/networking/charts/dranet"
_TAG = "v1.4.0"
_NRI_PLUGIN = Program("soft-rdma-nri", "softrdma", "trackbed.dev/lab/softrdma")
_DRIVER = f"""#!/bin/sh
# Runs the driver, and beside it the plugin that plays what soft-RoCE lacks; containerd may close a plugin's connection.
while :; do /usr/bin/{_NRI_PLUGIN.name}; sleep 1; done &
exec /usr/bin/dranet "$@"
"""


def _build_images(parts: ImageParts) -> list[ImageSpec]:
    programs = {f"usr/bin/{name}": parts.programs.locate_program(name) for name in (_COMPONENT, _NRI_PLUGIN.name)}
    name = choose_release(parts.plan, _COMPONENT).images[_COMPONENT]
    image = build_script_image(name, parts.tools, "", programs, {"dranet-in-lab": _DRIVER})
    driver = replace(
        image,
        links={**image.links, "dranet": "usr/bin/dranet-in-lab"},
        texts={**image.texts, "usr/share/hwdata/pci.ids": network_operator.PCI_IDS, "tmp/.keep": ""},
        entrypoint=(),
    )
    return [driver, network_operator.build_nfd_image(parts, sriov_operator.NFD)]


def _count_allocated(client: BlockingClient) -> int:
    """Count the ports that claims hold."""
    claims = client.list("resource.k8s.io/v1", "ResourceClaim")
    devices = [claim.get("status", {}).get("allocation", {}).get("devices", {}) for claim in claims]
    return sum(len(allocated.get("results", [])) for allocated in devices)


_DRANET = LabStack(
    name="dranet",
    fabric="dranet.yaml",
    charts={_CHART: _COMPONENT},
    images=_build_images,
    go_programs=(_NRI_PLUGIN, *network_operator.NFD_PROGRAMS),
    held_in_api=_count_allocated,
    moves_addresses=True,
    skipped_charts=("gpu-operator",),
    site_charts={sriov_operator.NFD_RELEASE: sriov_operator.NFD_CHART},
    options={
        sriov_operator.NFD_RELEASE: sriov_operator.NFD_OPTIONS,
        _CHART: (
            *("--set", f"image.tag={_TAG}"),
            *("--set", "args.cloudProviderHint=NONE"),
            *("--set", "args.profileProvider=none"),
        ),
    },
)
STACKS = (_DRANET,)
