"""NVIDIA's Network Operator 26.4.1 in the lab: its own operators, daemons and CNI plugins, as its charts start them.

The operators are the project's programs at the releases that the catalogue pins. The images of CNI plugins, of the
device plugin and of the SR-IOV operator's daemon start by scripts in the original; here these are the lab's.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from trackbed.cluster.stacks.releases import choose_release
from trackbed_lab.kubernetes.images import ImageSpec
from trackbed_lab.kubernetes.programs import Program
from trackbed_lab.kubernetes.stacks import soft_rdma, whereabouts
from trackbed_lab.kubernetes.stacks.image_parts import (
    NOBODY,
    SLEEP,
    build_bash_image,
    build_program_image,
    build_script_image,
)
from trackbed_lab.kubernetes.stacks.lab_stack import ImageParts, LabStack
from trackbed_lab.vm.furnish import ServerFile

COMPONENT = "nvidia-network-operator"
_MANIFESTS, _BINDATA = "network-operator-manifests-26.4.1", "sriov-network-operator-bindata-1.6.0"

_PLUGINS = "github.com/containernetworking/plugins/plugins"
_NFD = "sigs.k8s.io/node-feature-discovery/cmd"
_MULTUS = "gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd"
NFD_PROGRAMS = tuple(Program(name, "nfd", f"{_NFD}/{name}") for name in ("nfd-gc", "nfd-master", "nfd-worker"))
GO_PROGRAMS = (
    *(
        Program(name, "cni", f"{_PLUGINS}/{folder}/{name}")
        for name, folder in (("host-device", "main"), ("macvlan", "main"), ("tuning", "meta"), ("sbr", "meta"))
    ),
    *(Program(name, "multus", f"{_MULTUS}/{name}") for name in ("install_multus", "thin_entrypoint")),
    Program("passthru", "multus", f"{_MULTUS}/passthru-cni"),
    *NFD_PROGRAMS,
)

_SHARED_PLUGIN = Program(
    "k8s-rdma-shared-dp", "rdmashared", "github.com/Mellanox/k8s-rdma-shared-dev-plugin/cmd/k8s-rdma-shared-dp"
)

_INSTALL = """#!/bin/sh
# Copies the CNI plugins of this image to the host; `--no-sleep` ends it then.
mkdir -p /host/opt/cni/bin/lab
for path in /plugins/*; do [ ! -f "$path" ] || cp -f "$path" /host/opt/cni/bin/; done
for path in /plugins/lab/*; do
    [ -f "$path" ] || continue
    cp -f "$path" /host/opt/cni/bin/lab/
    cp -f /usr/bin/soft-rdma-wrapper "/host/opt/cni/bin/${path##*/}"
done
[ "$1" = --no-sleep ] || """
_DEVICE_PLUGIN = """#!/bin/sh
# Takes the operators' options for the log, of which the program has others.
for word; do
    shift
    case $word in
        --log-dir=*) ;;
        --log-level=*) set -- "$@" -logtostderr "-v=${word#*=}" ;;
        *) set -- "$@" "$word" ;;
    esac
done
exec /usr/bin/soft-rdma-view /usr/bin/sriovdp "$@"
"""
_SHARED_DEVICE_PLUGIN = '#!/bin/sh\nexec /usr/bin/soft-rdma-view /usr/bin/shared-device-plugin "$@"\n'
_UMAD = "# As `trackbed apply` writes it for a NIC that it knows; the shared RDMA device plugin wants it.\nib_umad\n"
PCI_IDS = (
    "8086  Intel Corporation\n\t10c9  82576\n\t10ca  82576 Virtual Function\nC 02  Network controller\n\t00  Ethernet\n"
)

SUPPORT_IGB = """\
{{kubectl}} --namespace {namespace} patch configmap supported-nic-ids --type merge \\
    --patch '{{{{"data": {{{{"Intel_igb_82576": "8086 10c9 10ca"}}}}}}}}'
"""
"""Adds the lab's NICs to those that the SR-IOV operator in a namespace supports."""
RENAMED = "udev names a VF again between LinkDelAltName and LinkSetNsFd of sriov-cni (SetupVF, v2.10.0)"
"""Why a VF may come home under another name."""
HELD = "grep -o '\"container_id\"' /var/lib/cni/nv-ipam/store; true"


def _build_sriov_images(parts: ImageParts) -> list[ImageSpec]:
    names = choose_release(parts.plan, COMPONENT).images
    return [*_iter_images(parts, names), *iter_sriov_images(parts, names)]


def _build_hostdevice_images(parts: ImageParts) -> list[ImageSpec]:
    return list(_iter_images(parts, choose_release(parts.plan, COMPONENT).images))


def _build_macvlan_images(parts: ImageParts) -> list[ImageSpec]:
    names = choose_release(parts.plan, COMPONENT).images
    image = build_script_image(
        names["rdma-shared-device-plugin"],
        parts.tools,
        "",
        {"usr/bin/shared-device-plugin": parts.programs.locate_program("k8s-rdma-shared-dp")},
        {"k8s-rdma-shared-dp": _SHARED_DEVICE_PLUGIN, "soft-rdma-view": soft_rdma.VIEW},
    )
    return [*_iter_images(parts, names), replace(image, texts={**image.texts, "usr/share/hwdata/pci.ids": PCI_IDS})]


def iter_operator_images(parts: ImageParts, names: Mapping[str, str]) -> Iterator[ImageSpec]:
    """Yield the images of the Network Operator, of NFD and of NV-IPAM; `names` are those of the release."""
    locate = parts.programs.locate_program
    yield build_nfd_image(parts, names["node-feature-discovery"])
    manifests = parts.programs.list_files(_MANIFESTS, "manifests", "manifests")
    yield build_program_image(
        names["network-operator"], {"manager": locate("network-operator-26.4.1"), **manifests}, NOBODY
    )
    ipam = build_program_image(
        names["nv-ipam"], {name: locate(name) for name in ("ipam-controller", "ipam-node", "nv-ipam")}
    )
    yield replace(ipam, texts={"var/log/.keep": ""})


def _iter_images(parts: ImageParts, names: Mapping[str, str]) -> Iterator[ImageSpec]:
    """Yield the images of the operator, of what it starts for every stack of its own, of device plugin and IPAM."""
    yield from iter_operator_images(parts, names)
    yield from whereabouts.iter_images(parts)
    yield build_multus_image(parts, names["multus"])
    plain, moving = ("tuning", "sbr", "macvlan"), ("host-device",)
    yield build_plugin_image(parts, names["cni-plugins"], plain, moving)
    yield build_device_plugin_image(parts, names["sriov-device-plugin"])


def build_device_plugin_image(parts: ImageParts, name: str) -> ImageSpec:
    """Return the image of the SR-IOV device plugin."""
    programs = {"usr/bin/sriovdp": parts.programs.locate_program("sriovdp")}
    image = build_script_image(name, parts.tools, _DEVICE_PLUGIN, programs, {"soft-rdma-view": soft_rdma.VIEW})
    return replace(image, texts={**image.texts, "usr/share/hwdata/pci.ids": PCI_IDS})


def build_multus_image(parts: ImageParts, name: str) -> ImageSpec:
    """Return the image of thin Multus."""
    locate = parts.programs.locate_program
    multus = {f"usr/src/multus-cni/bin/{program}": locate(program) for program in ("multus", "passthru")}
    return build_program_image(
        name, {**multus, **{program: locate(program) for program in ("install_multus", "thin_entrypoint")}}
    )


def build_nfd_image(parts: ImageParts, name: str) -> ImageSpec:
    """Return the image of Node Feature Discovery."""
    programs = ("nfd-gc", "nfd-master", "nfd-worker")
    return build_program_image(name, {f"usr/bin/{it}": parts.programs.locate_program(it) for it in programs}, NOBODY)


def iter_sriov_images(parts: ImageParts, names: Mapping[str, str]) -> Iterator[ImageSpec]:
    """Yield the images of the SR-IOV operator."""
    locate = parts.programs.locate_program
    bindata = parts.programs.list_files(_BINDATA, "bindata", "bindata")
    operator = {"usr/bin/sriov-network-operator": locate("sriov-network-operator"), **bindata}
    yield build_program_image(names["sriov-network-operator"], operator, NOBODY)
    daemon = {"usr/bin/sriov-network-config-daemon": locate("sriov-network-config-daemon"), **bindata}
    image = build_bash_image(names["sriov-network-operator-config-daemon"], parts.tools, daemon)
    yield replace(image, texts={"usr/share/hwdata/pci.ids": PCI_IDS})
    yield build_plugin_image(parts, names["sriov-cni"], (), ("sriov",))
    yield build_plugin_image(parts, names["rdma-cni"], ("rdma",), ())
    yield build_plugin_image(parts, names["ib-sriov-cni"], (), ())
    empty = {"ovs", "ovs-mirror-producer", "ovs-mirror-consumer"}
    image = build_plugin_image(parts, names["ovs-cni"], (), ())
    yield replace(image, texts={**image.texts, **dict.fromkeys(empty, "")})


def build_plugin_image(parts: ImageParts, name: str, plain: tuple[str, ...], moving: tuple[str, ...]) -> ImageSpec:
    """Return an image that installs CNI plugins; `moving` are those that move interfaces with an RDMA device."""
    paths: dict[str, Path] = {f"plugins/{program}": parts.programs.locate_program(program) for program in plain}
    paths |= {f"plugins/lab/{program}": parts.programs.locate_program(program) for program in moving}
    scripts = {"soft-rdma-wrapper": soft_rdma.WRAPPER}
    return build_script_image(name, parts.tools, _INSTALL + SLEEP, paths, scripts)


CHARTS = {"network-operator": "network-operator-26.4.1"}
NODE_LABELS = {"feature.node.kubernetes.io/pci-15b3.present": "true"}

_SRIOV = LabStack(
    name="network-operator-sriov",
    fabric="sriov.yaml",
    charts=CHARTS | whereabouts.CHARTS,
    images=_build_sriov_images,
    go_programs=GO_PROGRAMS,
    node_files=soft_rdma.render_node_files(),
    node_labels=NODE_LABELS,
    after_chart=SUPPORT_IGB.format(namespace="nvidia-network-operator"),
    held=HELD,
    held_in_api=whereabouts.count_held,
    leaves=RENAMED,
    skipped_charts=("gpu-operator",),
)
_HOSTDEVICE = replace(
    _SRIOV,
    name="network-operator-hostdevice",
    fabric="hostdevice.yaml",
    images=_build_hostdevice_images,
    after_chart="",
    leaves="",
)
_MACVLAN = replace(
    _HOSTDEVICE,
    name="network-operator-macvlan",
    fabric="macvlan.yaml",
    images=_build_macvlan_images,
    go_programs=(*GO_PROGRAMS, _SHARED_PLUGIN),
    node_files={"etc/modules-load.d/91-lab-umad.conf": ServerFile(_UMAD)},
    without_rdma="soft-RoCE looks for a route of the pod's address in the node's network namespace (rxe_find_route4)",
)
STACKS = (_SRIOV, _HOSTDEVICE, _MACVLAN)
