"""Rules of NCCL's environment variables (NCCL 2.30) and of options of MPI."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from trackbed.fabric.model.problems import Path
from trackbed.lint.corpus import Corpus
from trackbed.lint.finding import Breach, Edit
from trackbed.lint.pods import PodTemplate
from trackbed.lint.tree import list_mappings, list_texts

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
_DEVICE = re.compile(r"(?!mlx[45]$)\w*\d")
"""A device name with a number, not only the name of the driver."""
_NOT_TUNING = {"NCCL_IB_DISABLE"}
_LEVELS = ("NCCL_NET_GDR_LEVEL", "NCCL_P2P_LEVEL")


class _Variable(NamedTuple):
    """An environment variable of a container, with the path of its value."""

    pod: PodTemplate
    name: str
    value: str
    path: Path

    def report(self, rule: str, message: str, edit: Edit | None = None) -> Breach:
        """Return a breach at the variable's value."""
        return Breach(rule, self.pod.doc.tree, self.path, message, edit=edit)


def _list_variables(corpus: Corpus) -> Iterator[_Variable]:
    for pod in corpus.pods:
        for path, container in pod.list_containers(init=True):
            for number, env in list_mappings(container.get("env")):
                name, value = env.get("name"), env.get("value")
                if isinstance(name, str) and isinstance(value, str | int | float):
                    yield _Variable(pod, name, str(value).strip(), (*path, "env", number, "value"))


def check_devices(corpus: Corpus) -> Iterator[Breach]:
    """Find NCCL_IB_HCA without `=`, which makes its names prefixes, and in pods with VFs."""
    for variable in _list_variables(corpus):
        if variable.name != "NCCL_IB_HCA" or not variable.value:
            continue
        bare = variable.value.lstrip("^")
        names = [item.partition(":")[0] for item in bare.lstrip("=").split(",") if item]
        first = next((name for name in names if _DEVICE.fullmatch(name) and not name.endswith("_0")), "")
        if not bare.startswith("=") and first:
            exact = "^" * variable.value.startswith("^") + "=" + bare
            message = f"without = these are prefixes: {first!r} also takes {first}0 to {first}9"
            yield variable.report("hca-prefix", message, Edit(variable.value, exact))
        elif not bare.startswith(("=", "^")) and any(not _DEVICE.fullmatch(name) for name in names):
            message = f"{variable.value!r} takes every device whose name starts so, storage and management NICs too"
            yield variable.report("hca-takes-all", message)
        if not variable.value.startswith("^") and any(_DEVICE.fullmatch(name) for name in names):
            yield from _check_vf_names(corpus, variable)


def _check_vf_names(corpus: Corpus, variable: _Variable) -> Iterator[Breach]:
    attached = corpus.find_networks(variable.pod)
    offered = {offer.name for offer in corpus.offers if offer.doc.kind == "SriovNetworkNodePolicy"}
    bare = {request.name.rpartition("/")[2] for request in variable.pod.list_nics()}
    if any(network.type in {"sriov", "ib-sriov"} for network in attached) or bare & offered:
        message = "the pod gets VFs, whose RDMA devices have other names than the ports and differ from node to node"
        yield variable.report("hca-names-in-vf-pod", message)


def check_settings(corpus: Corpus) -> Iterator[Breach]:
    """Find values that differ between machines, disable RDMA, or are no longer read."""
    for variable in _list_variables(corpus):
        if (
            variable.name == "NCCL_IB_GID_INDEX"
            and variable.value != "-1"
            and variable.pod.get("spec", "hostNetwork") is not True
        ):
            message = f"GID index {variable.value} is right in some pods only; NCCL finds the index itself"
            yield variable.report("gid-index-fixed", message)
        if variable.name == "NCCL_IB_DISABLE" and variable.value == "1" and variable.pod.list_nics():
            yield variable.report(
                "ib-disabled", "the pod asks for RDMA devices, and NCCL_IB_DISABLE keeps NCCL from using them"
            )
        if variable.name in _REMOVED:
            name_path = (*variable.path[:-1], "name")
            message = f"{variable.name} is no longer read; its successor is {_REMOVED[variable.name]}"
            yield Breach("nccl-variable-gone", variable.pod.doc.tree, name_path, message)
        if variable.name in _LEVELS and variable.value.isdigit():
            message = f"{variable.name}={variable.value}: numbers are deprecated; write LOC, PIX, PXB, PHB or SYS"
            yield variable.report("nccl-level-number", message)


def check_bootstrap(corpus: Corpus) -> Iterator[Breach]:
    """Find bootstrap traffic on a rail."""
    for variable in _list_variables(corpus):
        if variable.name != "NCCL_SOCKET_IFNAME" or variable.value.startswith("^"):
            continue
        attached = {request.interface for request in variable.pod.networks if request.interface}
        attached |= {f"net{number + 1}" for number, _ in enumerate(variable.pod.networks)}
        rails = [name for name in variable.value.lstrip("=").split(",") if name in attached or _RAIL.fullmatch(name)]
        if rails:
            yield variable.report(
                "socket-ifname-rail", f"{rails[0]!r} is a rail: the whole job fails with this one NIC"
            )


_INFINIBAND = {"ipoib", "ib-sriov"}
"""CNI plugins that attach InfiniBand interfaces."""


def check_traffic_class(corpus: Corpus) -> Iterator[Breach]:
    """Find RoCE settings without a traffic class; InfiniBand has service levels instead."""
    for pod in corpus.pods:
        if any(network.type in _INFINIBAND for network in corpus.find_networks(pod)):
            continue
        for path, container in pod.list_containers():
            names = {str(env.get("name")) for _, env in list_mappings(container.get("env"))}
            settings = sorted(name for name in names if name.startswith("NCCL_IB_") and name not in _NOT_TUNING)
            if settings and "NCCL_IB_TC" not in names and pod.list_nics():
                message = f"{settings[0]} is set and NCCL_IB_TC is not: RoCE traffic goes out in traffic class 0"
                yield Breach("traffic-class-unset", pod.doc.tree, (*path, "env"), message, key=True)


def check_mpi(corpus: Corpus) -> Iterator[Breach]:
    """Find options of openib, a transport that Open MPI has removed."""
    for pod in corpus.pods:
        for path, container in pod.list_containers(init=True):
            for field in ("command", "args"):
                for number, text in list_texts(container.get(field)):
                    if "btl_openib" in text:
                        message = "btl_openib options belong to a transport that Open MPI 5 does not have"
                        yield Breach("openib-btl", pod.doc.tree, (*path, field, number), message)


CHECKS = (check_devices, check_settings, check_bootstrap, check_traffic_class, check_mpi)
