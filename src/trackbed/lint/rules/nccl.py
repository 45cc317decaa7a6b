"""Rules for the environment variables of NCCL (2.30) and for the options of MPI."""

import re
from collections.abc import Iterator

from trackbed.fabric.nccl_images import FIRST_FIT, has_old_nccl
from trackbed.lint.corpus import Corpus
from trackbed.lint.finding import Breach, Edit
from trackbed.lint.pods import PodTemplate
from trackbed.lint.tree import dig, enumerate_mappings, enumerate_texts
from trackbed.lint.variables import EnvironmentVariable, iter_variables

_REMOVED = {
    "NCCL_IB_CUDA_SUPPORT": "NCCL_NET_GDR_LEVEL",
    "NCCL_IB_GDR_LEVEL": "NCCL_NET_GDR_LEVEL",
    "NCCL_TREE_THRESHOLD": "NCCL_ALGO",
    "NCCL_SINGLE_RING_THRESHOLD": "NCCL_ALGO",
    "NCCL_LL_THRESHOLD": "NCCL_PROTO",
    "NCCL_MAX_NRINGS": "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_NRINGS": "NCCL_MIN_NCHANNELS",
}
_RAIL = re.compile(r"net\d+|rail\w*|ib\w*|mlx\w*")
_DEVICE = re.compile(r"(?!mlx[45]$|eth\d+$)\w*\d")
"""Matches a device name with a number, but neither the bare name of a driver nor eth0, which is no RDMA device."""
_NO_DEVICE = re.compile(r"eth\d+|lo|none")
_SECOND = re.compile(r"(?!(?:roce|ib)[pP]\d)\w*[^\W\d]1")
"""Matches a device with the number 1, as many servers also have numbers 10 to 19; few have 20 or more.

A name by PCI place (rocep1s0f1) ends in a function, of which there are 8.
"""
_TEN, _MAX_DIGITS = 10, 2
_FEW_GPUS = 4
"""Servers with fewer GPUs have no ten RDMA devices."""
_SHARED = {"macvlan", "ipvlan"}
"""CNI plugins by which pods share a port, and with it one table of GIDs."""
_INFINIBAND = {"ipoib", "ib-sriov"}
"""CNI plugins that attach InfiniBand interfaces."""
_INFINIBAND_VALUES = {
    "NCCL_SOCKET_IFNAME": re.compile(r"^=?ib\d"),
    "NCCL_TOPO_FILE": re.compile(r"(?<![A-Za-z0-9])ib(?![A-Za-z0-9])"),
}
"""Variable -> its values where the fabric is InfiniBand: an IPoIB interface, a topology file for it."""
_LEVELS = ("NCCL_NET_GDR_LEVEL", "NCCL_P2P_LEVEL")


def check_devices(corpus: Corpus) -> Iterator[Breach]:
    """Find values of NCCL_IB_HCA that match more devices than intended, or that name devices in pods with VFs."""
    for variable in iter_variables(corpus):
        if variable.name != "NCCL_IB_HCA" or not variable.value:
            continue
        bare = variable.value.lstrip("^")
        names = [item.partition(":")[0] for item in bare.lstrip("=").split(",") if item]
        whole = _find_whole_ranges(names)
        first = next((name for name in names if _SECOND.fullmatch(name) and name[:-1] not in whole), "")
        if not bare.startswith("=") and first and not _uses_few_gpus(variable):
            exact = "^" * variable.value.startswith("^") + "=" + bare
            message = f"without = these are prefixes: {first!r} also takes {first}0 to {first}9"
            yield variable.build_breach("hca-prefix", message, Edit(variable.value, exact))
        elif not bare.startswith(("=", "^")) and _takes_all(names) and not _has_only_its_nics(variable):
            message = f"{variable.value!r} takes every device whose name starts so, storage and management NICs too"
            yield variable.build_breach("hca-takes-all", message)
        if variable.pod and not variable.value.startswith("^") and any(_DEVICE.fullmatch(name) for name in names):
            yield from _check_vf_names(corpus, variable, variable.pod)


def _find_whole_ranges(names: list[str]) -> set[str]:
    """Return the stems of devices of which numbers 0 to 10, or to more, are named without a gap."""
    numbers: dict[str, set[int]] = {}
    for name in names:
        stem = name.rstrip("0123456789")
        if 0 < len(name) - len(stem) <= _MAX_DIGITS:
            numbers.setdefault(stem, set()).add(int(name[len(stem) :]))
    return {stem for stem, group in numbers.items() if len(group) > _TEN and max(group) < len(group)}


def _uses_few_gpus(variable: EnvironmentVariable) -> bool:
    return 0 < max((pod.count_gpus() for pod in variable.list_pods()), default=0) < _FEW_GPUS


def _takes_all(names: list[str]) -> bool:
    return any(not _DEVICE.fullmatch(name) and not _NO_DEVICE.fullmatch(name) for name in names)


def _has_only_its_nics(variable: EnvironmentVariable) -> bool:
    """Return whether a pod can open no RDMA devices but those that it asks for.

    A resource of the shared device plugin (rdma/...) may stand for every NIC of the node.
    """
    if variable.is_on_host_network():
        return False
    pods = variable.list_pods()
    containers = [container for pod in pods for _, container in pod.list_containers(init=False)]
    is_privileged = any(dig(container, "securityContext", "privileged") is True for container in containers)
    nics = [request.name for pod in pods for request in pod.list_nic_requests()]
    is_limited = bool(nics) or any(pod.get("spec", "resourceClaims") for pod in pods)
    return is_limited and not is_privileged and not any(name.startswith("rdma/") for name in nics)


def _check_vf_names(corpus: Corpus, variable: EnvironmentVariable, pod: PodTemplate) -> Iterator[Breach]:
    attached = corpus.find_networks(pod)
    offered = {offer.name for offer in corpus.offers if offer.doc.kind == "SriovNetworkNodePolicy"}
    bare = {request.name.rpartition("/")[2] for request in pod.list_nic_requests()}
    if any(network.type in {"sriov", "ib-sriov"} for network in attached) or bare & offered:
        message = "the pod gets VFs, whose RDMA devices have other names than the ports and differ from node to node"
        yield variable.build_breach("hca-names-in-vf-pod", message)


def check_settings(corpus: Corpus) -> Iterator[Breach]:
    """Find NCCL variables that differ between machines, disable RDMA, or are no longer read."""
    variables = list(iter_variables(corpus))
    infiniband = {id(variable.pod) for variable in variables if variable.pod and _names_infiniband(corpus, variable)}
    for variable in variables:
        is_read = not variable.is_on_host_network() and id(variable.pod) not in infiniband
        if variable.name == "NCCL_IB_GID_INDEX" and variable.value != "-1" and is_read:
            message = f"GID index {variable.value} is right in some pods only; NCCL 2.21 and later find the index"
            breach = variable.build_breach("gid-index-fixed", message)
            yield breach if _shares_ports(corpus, variable) else breach._replace(severity="note")
        has_nics = variable.pod is not None and variable.pod.list_nic_requests()
        if variable.name == "NCCL_IB_DISABLE" and variable.value == "1" and has_nics:
            yield variable.build_breach(
                "ib-disabled", "the pod asks for RDMA devices, and NCCL_IB_DISABLE keeps NCCL from using them"
            )
        if variable.name in _REMOVED:
            message = f"{variable.name} is no longer read; its successor is {_REMOVED[variable.name]}"
            yield variable.build_name_breach("nccl-variable-gone", message)
        if variable.name in _LEVELS and variable.value.isdigit():
            message = f"{variable.name}={variable.value}: numbers are deprecated; write LOC, PIX, PXB, PHB or SYS"
            yield variable.build_breach("nccl-level-number", message)


def _shares_ports(corpus: Corpus, variable: EnvironmentVariable) -> bool:
    """Return whether other pods are known to add GIDs to the tables of this pod's ports."""
    return any(network.type in _SHARED for pod in variable.list_pods() for network in corpus.find_networks(pod))


def _names_infiniband(corpus: Corpus, variable: EnvironmentVariable) -> bool:
    """Return whether a variable or the networks of its pod are InfiniBand's, where NCCL reads no GID index."""
    pattern = _INFINIBAND_VALUES.get(variable.name)
    is_named = pattern is not None and pattern.search(variable.value) is not None
    pods = variable.list_pods() if variable.name == "NCCL_IB_GID_INDEX" else ()
    return is_named or any(network.type in _INFINIBAND for pod in pods for network in corpus.find_networks(pod))


def check_bootstrap(corpus: Corpus) -> Iterator[Breach]:
    """Find values of NCCL_SOCKET_IFNAME that put bootstrap traffic on a rail."""
    for variable in iter_variables(corpus):
        if variable.name != "NCCL_SOCKET_IFNAME" or variable.value.startswith("^"):
            continue
        attached = {
            name
            for pod in variable.list_pods()
            for number, request in enumerate(pod.networks, 1)
            for name in (request.interface, f"net{number}")
        }
        rails = [name for name in variable.value.lstrip("=").split(",") if name in attached or _RAIL.fullmatch(name)]
        if rails:
            yield variable.build_breach(
                "socket-ifname-rail", f"{rails[0]!r} is a rail: the whole job fails with this one NIC"
            )


def check_traffic_class(corpus: Corpus) -> Iterator[Breach]:
    """Find RoCE pods that set no traffic class. InfiniBand has service levels instead."""
    for pod in corpus.pods:
        if any(network.type in _INFINIBAND for network in corpus.find_networks(pod)):
            continue
        for path, container in pod.list_containers():
            names = {str(env.get("name")) for _, env in enumerate_mappings(container.get("env"))}
            settings = sorted(name for name in names if name.startswith("NCCL_IB_") and name != "NCCL_IB_DISABLE")
            if settings and "NCCL_IB_TC" not in names and pod.list_nic_requests():
                message = f"{settings[0]} is set and NCCL_IB_TC is not: RoCE traffic goes out in traffic class 0"
                yield Breach("traffic-class-unset", pod.doc.tree, (*path, "env"), message, key=True)


def check_version(corpus: Corpus) -> Iterator[Breach]:
    """Find images whose NCCL ends at a gap of the GID table, in pods that share ports."""
    for pod in corpus.pods:
        if not any(network.type in _SHARED for network in corpus.find_networks(pod)):
            continue
        for path, container in pod.list_containers():
            names = {str(env.get("name")) for _, env in enumerate_mappings(container.get("env"))}
            image = container.get("image")
            if isinstance(image, str) and has_old_nccl(image) and "NCCL_IB_GID_INDEX" not in names:
                message = f"{image} has an NCCL before {FIRST_FIT}, and other pods make gaps in the GID table"
                yield Breach("nccl-too-old", pod.doc.tree, (*path, "image"), message)


def check_mpi(corpus: Corpus) -> Iterator[Breach]:
    """Find MPI options of openib, a transport that Open MPI has removed."""
    for pod in corpus.pods:
        for path, container in pod.list_containers(init=True):
            for field in ("command", "args"):
                for number, text in enumerate_texts(container.get(field)):
                    if "btl_openib" in text:
                        message = "btl_openib options belong to a transport that Open MPI 5 does not have"
                        yield Breach("openib-btl", pod.doc.tree, (*path, field, number), message)


CHECKS = (check_devices, check_settings, check_bootstrap, check_traffic_class, check_version, check_mpi)
