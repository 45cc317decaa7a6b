"""NCCL's environment, read as NCCL reads it (2.30), and options of MPI that do harm."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from trackbed.fabric.model.problems import Path
from trackbed.lint.corpus import Corpus
from trackbed.lint.finding import Edit, Hit
from trackbed.lint.pods import Pod
from trackbed.lint.tree import mappings, texts

_GONE = {
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
"""A name that says which device, not only which driver."""
_NOT_TUNING = {"NCCL_IB_DISABLE"}
_LEVELS = ("NCCL_NET_GDR_LEVEL", "NCCL_P2P_LEVEL")


class _Variable(NamedTuple):
    """One variable of one container, with the path of its value."""

    pod: Pod
    name: str
    value: str
    path: Path

    def hit(self, rule: str, message: str, edit: Edit | None = None) -> Hit:
        """A breach at this variable's value."""
        return Hit(rule, self.pod.doc.tree, self.path, message, edit=edit)


def _variables(corpus: Corpus) -> Iterator[_Variable]:
    for pod in corpus.pods:
        for path, container in pod.containers(init=True):
            for number, env in mappings(container.get("env")):
                name, value = env.get("name"), env.get("value")
                if isinstance(name, str) and isinstance(value, str | int | float):
                    yield _Variable(pod, name, str(value).strip(), (*path, "env", number, "value"))


def devices(corpus: Corpus) -> Iterator[Hit]:
    """NCCL_IB_HCA: a name without `=` is a prefix."""
    for one in _variables(corpus):
        if one.name != "NCCL_IB_HCA" or not one.value:
            continue
        bare = one.value.lstrip("^")
        names = [item.partition(":")[0] for item in bare.lstrip("=").split(",") if item]
        first = next((name for name in names if _DEVICE.fullmatch(name) and not name.endswith("_0")), "")
        if not bare.startswith("=") and first:
            sharp = "^" * one.value.startswith("^") + "=" + bare
            message = f"without = these are prefixes: {first!r} also takes {first}0 to {first}9"
            yield one.hit("hca-prefix", message, Edit(one.value, sharp))
        elif not bare.startswith(("=", "^")) and any(not _DEVICE.fullmatch(name) for name in names):
            message = f"{one.value!r} takes every device whose name starts so, storage and management NICs too"
            yield one.hit("hca-takes-all", message)
        if not one.value.startswith("^") and any(_DEVICE.fullmatch(name) for name in names):
            yield from _vf_names(corpus, one)


def _vf_names(corpus: Corpus, one: _Variable) -> Iterator[Hit]:
    attached = corpus.attached(one.pod)
    offered = {offer.name for offer in corpus.offers if offer.doc.kind == "SriovNetworkNodePolicy"}
    bare = {asked.name.rpartition("/")[2] for asked in one.pod.nics()}
    if any(network.type in {"sriov", "ib-sriov"} for network in attached) or bare & offered:
        message = "the pod gets VFs, whose RDMA devices have other names than the ports and differ from node to node"
        yield one.hit("hca-names-in-vf-pod", message)


def settings(corpus: Corpus) -> Iterator[Hit]:
    """Values that fit one machine, or turn RDMA off."""
    for one in _variables(corpus):
        if one.name == "NCCL_IB_GID_INDEX" and one.value != "-1" and one.pod.get("spec", "hostNetwork") is not True:
            message = f"GID index {one.value} is right in some pods only; NCCL finds the index itself"
            yield one.hit("gid-index-fixed", message)
        if one.name == "NCCL_IB_DISABLE" and one.value == "1" and one.pod.nics():
            yield one.hit("ib-disabled", "the pod asks for RDMA devices, and NCCL is told not to use them")
        if one.name in _GONE:
            name_path = (*one.path[:-1], "name")
            message = f"{one.name} is no longer read; its successor is {_GONE[one.name]}"
            yield Hit("nccl-variable-gone", one.pod.doc.tree, name_path, message)
        if one.name in _LEVELS and one.value.isdigit():
            message = f"{one.name}={one.value}: numbers are the old form; write LOC, PIX, PXB, PHB or SYS"
            yield one.hit("nccl-level-number", message)


def bootstrap(corpus: Corpus) -> Iterator[Hit]:
    """Bootstrap traffic on a rail."""
    for one in _variables(corpus):
        if one.name != "NCCL_SOCKET_IFNAME" or one.value.startswith("^"):
            continue
        attached = {wanted.interface for wanted in one.pod.networks if wanted.interface}
        attached |= {f"net{number + 1}" for number, _ in enumerate(one.pod.networks)}
        rails = [name for name in one.value.lstrip("=").split(",") if name in attached or _RAIL.fullmatch(name)]
        if rails:
            yield one.hit("socket-ifname-rail", f"{rails[0]!r} is a rail: the whole job fails with this one NIC")


_INFINIBAND = {"ipoib", "ib-sriov"}
"""CNI plugins that attach InfiniBand interfaces."""


def traffic_class(corpus: Corpus) -> Iterator[Hit]:
    """RoCE without a traffic class; InfiniBand has service levels instead."""
    for pod in corpus.pods:
        if any(network.type in _INFINIBAND for network in corpus.attached(pod)):
            continue
        for path, container in pod.containers():
            names = {str(env.get("name")) for _, env in mappings(container.get("env"))}
            told = sorted(name for name in names if name.startswith("NCCL_IB_") and name not in _NOT_TUNING)
            if told and "NCCL_IB_TC" not in names and pod.nics():
                message = f"{told[0]} is set and NCCL_IB_TC is not: RoCE traffic goes out in traffic class 0"
                yield Hit("traffic-class-unset", pod.doc.tree, (*path, "env"), message, key=True)


def mpi(corpus: Corpus) -> Iterator[Hit]:
    """Options of Open MPI's removed openib transport."""
    for pod in corpus.pods:
        for path, container in pod.containers(init=True):
            for field in ("command", "args"):
                for number, text in texts(container.get(field)):
                    if "btl_openib" in text:
                        message = "btl_openib options belong to a transport that Open MPI 5 does not have"
                        yield Hit("openib-btl", pod.doc.tree, (*path, field, number), message)


CHECKS = (devices, settings, bootstrap, traffic_class, mpi)
