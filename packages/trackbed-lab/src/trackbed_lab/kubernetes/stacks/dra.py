"""The SR-IOV DRA driver in the lab: claims by the real scheduler, VFs by NRI and the CNI plugin sriov.

The driver has no release: it is the commit that the folder of programs names, under the image's name that the
catalogue pins. Its chart is published nowhere, so it is installed as a site does: by helm, with the bundle's values.
"""

from dataclasses import replace

from trackbed.cluster.stacks.releases import choose_release
from trackbed_lab.kubernetes.images import ImageSpec
from trackbed_lab.kubernetes.stacks import network_operator, soft_rdma
from trackbed_lab.kubernetes.stacks.image_parts import build_script_image
from trackbed_lab.kubernetes.stacks.lab_stack import ImageParts, LabStack

_CHART = "dra-driver-sriov"
_CHARTS_OWN_PLUGIN = "ghcr.io/k8snetworkplumbingwg/sriov-cni:v2.10.0"
"""The image with which the chart installs sriov; no value sets another."""
_DRIVER = '#!/bin/sh\nexec /usr/bin/soft-rdma-view /usr/bin/driver "$@"\n'


def _build_images(parts: ImageParts) -> list[ImageSpec]:
    names = choose_release(parts.plan, network_operator.COMPONENT).images
    return [
        *network_operator.iter_operator_images(parts, names),
        *(network_operator.build_plugin_image(parts, name, (), ("sriov",)) for name in _list_plugin_images(parts)),
        _build_driver_image(parts),
    ]


def _list_plugin_images(parts: ImageParts) -> list[str]:
    names = choose_release(parts.plan, network_operator.COMPONENT).images
    return [names["sriov-cni"], _CHARTS_OWN_PLUGIN]


def _build_driver_image(parts: ImageParts) -> ImageSpec:
    image = build_script_image(
        choose_release(parts.plan, _CHART).images[_CHART],
        parts.tools,
        "",
        {"usr/bin/driver": parts.programs.locate_program(_CHART)},
        {_CHART: _DRIVER, "soft-rdma-view": soft_rdma.VIEW},
    )
    return replace(image, texts={**image.texts, "usr/share/hwdata/pci.ids": network_operator.PCI_IDS})


_SRIOV = LabStack(
    name="dra-sriov",
    fabric="dra.yaml",
    charts=network_operator.CHARTS,
    images=_build_images,
    go_programs=network_operator.GO_PROGRAMS,
    node_files=soft_rdma.render_node_files(),
    node_labels=network_operator.NODE_LABELS,
    held=network_operator.HELD,
    skipped_charts=("gpu-operator",),
    site_charts={_CHART: _CHART},
    has_rules=False,
    leaves="the driver forgets a pod with its first claim, which kubelet may unprepare before the sandbox stops",
)
STACKS = (_SRIOV,)
