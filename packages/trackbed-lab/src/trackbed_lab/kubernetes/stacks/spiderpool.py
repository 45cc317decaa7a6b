"""Spiderpool 1.2.2 in the lab, with Multus and the SR-IOV operator 1.3 of its chart; the site has NFD.

The chart starts the project's own build of the SR-IOV operator (tag v1.3.0 of spidernet-io/sriov-network-operator). Its
programs have names with -1.3.0 in the folder of programs. The chart's hook, which makes the coordinator, runs.
"""

import json
from collections.abc import Iterator
from dataclasses import replace

from trackbed.cluster.stacks.releases import choose_release
from trackbed_lab.kubernetes.blocking import BlockingClient
from trackbed_lab.kubernetes.images import ImageSpec, find_libraries
from trackbed_lab.kubernetes.stacks import network_operator, soft_rdma, sriov_operator
from trackbed_lab.kubernetes.stacks.image_parts import NOBODY, build_bash_image, build_program_image
from trackbed_lab.kubernetes.stacks.lab_stack import ImageParts, LabStack
from trackbed_lab.vm.parts import find_program

_COMPONENT = "spiderpool"
_BINDATA = "spiderpool-sriov-operator-bindata-1.3.0"
MULTUS = """#!/bin/sh
# The chart's script writes the API server's IPv4 address in brackets. This Multus is built with a Go that refuses that
# (net/url, 1.24.8 and 1.25.2); the chart's own Multus, 4.1.4, is older.
sed -i 's#https://\\[\\([0-9.]*\\)\\]#https://\\1#' /etc/cni/net.d/multus.d/multus.kubeconfig
exec /opt/cni/bin/multus-4.3.0 "$@"
"""


def _build_images(parts: ImageParts) -> list[ImageSpec]:
    names = choose_release(parts.plan, _COMPONENT).images
    locate = parts.programs.locate_program
    controller = {f"usr/bin/{name}": locate(name) for name in ("spiderpool-controller", "spiderpool-init")}
    return [
        build_program_image(names["spiderpool-controller"], controller),
        _build_agent_image(parts, names["spiderpool-agent"]),
        _build_plugin_image(parts, names["spiderpool-plugins"]),
        _build_multus_image(parts, names["multus-cni"]),
        network_operator.build_device_plugin_image(parts, names["sriov-network-device-plugin"]),
        network_operator.build_nfd_image(parts, sriov_operator.NFD),
        *_iter_operator_images(parts, names["sriov-network-operator"], names["sriov-network-operator-config-daemon"]),
    ]


def _build_plugin_image(parts: ImageParts, name: str) -> ImageSpec:
    """Return the image that installs CNI plugins, and the Multus that the script in the other image runs."""
    image = network_operator.build_plugin_image(parts, name, ("tuning", "rdma"), ("sriov",))
    files = {**image.files, "plugins/multus-4.3.0": parts.programs.locate_program("multus")}
    return replace(image, files=files, texts={**image.texts, "entrypoint.sh": "exec /usr/bin/start --no-sleep\n"})


def _build_multus_image(parts: ImageParts, name: str) -> ImageSpec:
    """Return the image of Multus, which is a script here."""
    image = network_operator.build_multus_image(parts, name)
    path = "usr/src/multus-cni/bin/multus"
    files = {key: source for key, source in image.files.items() if key != path}
    return replace(image, files=files, texts={"usr/bin/multus": MULTUS}, links={**image.links, path: "/usr/bin/multus"})


def _build_agent_image(parts: ImageParts, name: str) -> ImageSpec:
    """Return the image of the agent; the chart's script for Multus' configuration runs in it, with bash and jq."""
    names = ("spiderpool-agent", "spiderpool", "coordinator", "ifacer")
    programs = {f"usr/bin/{program}": parts.programs.locate_program(program) for program in names}
    jq = find_program(parts.tools, "jq").resolve()
    image = build_bash_image(name, parts.tools, {**programs, **find_libraries([jq], parts.tools), "usr/bin/jq": jq})
    return replace(image, texts={**image.texts, "tmp/.keep": ""})


def _iter_operator_images(parts: ImageParts, operator: str, daemon: str) -> Iterator[ImageSpec]:
    locate = parts.programs.locate_program
    bindata = parts.programs.list_files(_BINDATA, "bindata", "bindata")
    program = {"usr/bin/sriov-network-operator": locate("sriov-network-operator-1.3.0"), **bindata}
    yield build_program_image(operator, program, NOBODY)
    program = {"usr/bin/sriov-network-config-daemon": locate("sriov-network-config-daemon-1.3.0"), **bindata}
    image = build_bash_image(daemon, parts.tools, program)
    yield replace(image, texts={"usr/share/hwdata/pci.ids": network_operator.PCI_IDS})


def _count_allocated(client: BlockingClient) -> int:
    """Count the addresses that pools of Spiderpool have given to pods."""
    pools = client.list("spiderpool.spidernet.io/v2beta1", "SpiderIPPool")
    return sum(len(json.loads(pool.get("status", {}).get("allocatedIPs") or "{}")) for pool in pools)


_SPIDERPOOL = LabStack(
    name="spiderpool",
    fabric="spiderpool.yaml",
    charts={"spiderpool": "spiderpool-1.2.2"},
    options={sriov_operator.NFD_RELEASE: sriov_operator.NFD_OPTIONS},
    runs_hooks=True,
    images=_build_images,
    go_programs=network_operator.GO_PROGRAMS,
    node_files=soft_rdma.render_node_files(),
    held_in_api=_count_allocated,
    leaves=network_operator.RENAMED,
    skipped_charts=("gpu-operator",),
    site_charts={sriov_operator.NFD_RELEASE: sriov_operator.NFD_CHART},
    site_objects="kubeadm_config.yaml",
)
STACKS = (_SPIDERPOOL,)
