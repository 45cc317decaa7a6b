"""Rules for the objects of the SR-IOV Network Operator and the NVIDIA Network Operator."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from trackbed.lint.corpus import Corpus
from trackbed.lint.document import Document
from trackbed.lint.finding import Breach
from trackbed.lint.tree import dig, enumerate_texts

_PF = re.compile(r"(?P<name>[^#\s]+)(?:#(?P<first>\d{1,9})-(?P<last>\d{1,9}))?")
_SELECTORS = ("vendor", "deviceID", "rootDevices", "pfNames", "netFilter")
_SECTIONS = ("ofedDriver", "rdmaSharedDevicePlugin", "sriovDevicePlugin")
"""Sections of NicClusterPolicy that NicNodePolicy has too."""
_IDS = ("vendor", "deviceID")
"""Selectors of which a port has one value."""
_HABIT = 3
"""Files that define policies of each other, from which on they are not taken for a slip."""
_MAX_VFS = 128
"""Maximum number of VFs of a PF; MlxMaxVFs of the operator's webhook."""
_MAX_IB_VFS = 16
"""Maximum number of VFs of an InfiniBand PF; a known limitation of the Network Operator since 25.1."""
_NAME_LIMIT = 30


class _PortSelection(NamedTuple):
    """The VFs `first` to `last` of a PF that a policy selects; all VFs if both are None."""

    doc: Document
    number: int
    name: str
    first: int | None
    last: int | None


def check_selectors(corpus: Corpus) -> Iterator[Breach]:
    """Find node selectors and NIC selectors that are empty."""
    for doc in corpus.select_kinds("SriovNetworkNodePolicy"):
        if doc.get("spec", "nodeSelector") == {}:
            message = "nodeSelector is empty, so every node is configured, drained and rebooted"
            yield Breach("node-selector-empty", doc.tree, ("spec", "nodeSelector"), message)
        nics = doc.get("spec", "nicSelector")
        if isinstance(nics, dict) and not any(nics.get(key) for key in _SELECTORS):
            message = f"nicSelector names none of {', '.join(_SELECTORS)}"
            yield Breach("nic-selector-empty", doc.tree, ("spec", "nicSelector"), message)
    for doc in corpus.select_kinds("SriovNetworkPoolConfig"):
        if doc.get("spec", "ovsHardwareOffloadConfig") is None and not _has_selector(doc):
            message = "the selector is empty, so the pool takes every node"
            yield Breach("pool-selects-all-nodes", doc.tree, ("spec",), message, key=True)


def _has_selector(doc: Document) -> bool:
    selector = doc.get("spec", "nodeSelector")
    return isinstance(selector, list) or any(dig(selector, key) for key in ("matchLabels", "matchExpressions"))


def check_vfs(corpus: Corpus) -> Iterator[Breach]:
    """Find invalid VF counts and VF ranges, and RDMA with vfio-pci."""
    for doc in corpus.select_kinds("SriovNetworkNodePolicy"):
        count = doc.get("spec", "numVfs")
        infiniband = doc.get_text("spec", "linkType").lower() == "ib"
        most = _MAX_IB_VFS if infiniband else _MAX_VFS
        if type(count) is int and not 1 <= count <= most:
            message = f"numVfs {count} must be between 1 and {most}" + (" on InfiniBand" if infiniband else "")
            yield Breach("vf-count", doc.tree, ("spec", "numVfs"), message)
        if doc.get("spec", "deviceType") == "vfio-pci" and doc.get("spec", "isRdma") is True:
            message = "a VF bound to vfio-pci has no RDMA device in the host"
            yield Breach("rdma-with-vfio", doc.tree, ("spec", "isRdma"), message)
        for port in _iter_port_selections(doc):
            outside = type(count) is int and port.last is not None and port.last >= count
            if port.last is not None and port.first is not None and (port.first > port.last or outside):
                last = count - 1 if isinstance(count, int) else "numVfs - 1"
                message = f"VFs {port.first} to {port.last} of {port.name} are not a range inside 0 to {last}"
                yield Breach("vf-range-outside", doc.tree, ("spec", "nicSelector", "pfNames", port.number), message)


def _iter_port_selections(doc: Document) -> Iterator[_PortSelection]:
    for number, text in enumerate_texts(doc.get("spec", "nicSelector", "pfNames")):
        if match := _PF.fullmatch(text):
            ends = (int(match["first"]), int(match["last"])) if match["first"] else (None, None)
            yield _PortSelection(doc, number, match["name"], *ends)


def check_shared_ports(corpus: Corpus) -> Iterator[Breach]:
    """Find policies that select the same VFs of a PF, or that set different VF counts."""
    by_name: dict[str, list[_PortSelection]] = {}
    for doc in corpus.select_kinds("SriovNetworkNodePolicy"):
        for port in _iter_port_selections(doc):
            by_name.setdefault(port.name, []).append(port)
    choices = _find_alternatives(corpus)
    for ports in by_name.values():
        for number, later in enumerate(ports):
            others = (
                port
                for port in islice(ports, number)
                if port.doc is not later.doc
                and _may_conflict(port, later)
                and not _are_copies(port, later)
                and not _are_apart(corpus, choices, port.doc, later.doc)
            )
            conflicts = (
                corpus.weigh(breach, later.doc, port.doc)
                for port in others
                for breach in _check_port_conflicts(port, later)
            )
            yield from _choose_gravest(conflicts)


def _choose_gravest(breaches: Iterable[Breach]) -> Iterator[Breach]:
    """Yield the first breach that is no note, or else the first note; the others are of the same port."""
    note = None
    for breach in breaches:
        if breach.severity != "note":
            yield breach
            return
        note = note or breach
    if note:
        yield note


def _find_alternatives(corpus: Corpus) -> set[str]:
    """Return the folders whose files are applied one at a time: three or more define policies that another defines.

    Two files with one name may be a slip.
    """
    files: dict[object, set[str]] = {}
    for doc in corpus.select_kinds("SriovNetworkNodePolicy"):
        if doc.identity:
            files.setdefault((doc.folder, doc.identity), set()).add(doc.tree.source.file)
    shared = {name for names in files.values() if len(names) > 1 for name in names}
    counts = Counter(name.rpartition("/")[0] for name in shared)
    return {folder for folder, count in counts.items() if count >= _HABIT}


def _are_apart(corpus: Corpus, choices: set[str], doc: Document, other: Document) -> bool:
    """Return whether two policies are for different nodes or NICs, or are never applied together.

    `choices` are folders whose files are alternatives.
    """
    files = (doc.tree.source.file, other.tree.source.file)
    is_choice = files[0] != files[1] and not choices.isdisjoint({doc.folder, other.folder})
    return is_choice or _have_disjoint_selectors(doc, other) or corpus.builds.are_apart(*files)


def _are_copies(port: _PortSelection, other: _PortSelection) -> bool:
    return port.doc.identity is not None and port.doc.identity == other.doc.identity


def _may_conflict(port: _PortSelection, other: _PortSelection) -> bool:
    """Return whether two selections of a port share VFs or may differ in their number; this costs next to nothing."""
    return not _are_disjoint(port, other) or port.doc.get("spec", "numVfs") != other.doc.get("spec", "numVfs")


def _are_disjoint(port: _PortSelection, other: _PortSelection) -> bool:
    whole = port.last is None or other.last is None
    return not whole and ((port.last or 0) < (other.first or 0) or (other.last or 0) < (port.first or 0))


def _check_port_conflicts(earlier: _PortSelection, later: _PortSelection) -> Iterator[Breach]:
    path = ("spec", "nicSelector", "pfNames", later.number)
    disjoint = _are_disjoint(earlier, later)
    if not disjoint:
        message = f"the VFs of {later.name} overlap those that {earlier.doc.title} selects"
        yield Breach("vf-ranges-overlap", later.doc.tree, path, message)
    count, earlier_count = later.doc.get("spec", "numVfs"), earlier.doc.get("spec", "numVfs")
    if disjoint and count != earlier_count:
        message = f"numVfs is {count} here and {earlier_count} in {earlier.doc.title}, for the same port {later.name}"
        yield Breach("vf-counts-differ", later.doc.tree, ("spec", "numVfs"), message)


def _have_disjoint_selectors(first: Document, second: Document) -> bool:
    nodes = (first.get_mapping("spec", "nodeSelector"), second.get_mapping("spec", "nodeSelector"))
    nics = ({key: doc.get_text("spec", "nicSelector", key).lower() for key in _IDS} for doc in (first, second))
    return _differ(*nodes) or _differ(*({key: value for key, value in ids.items() if value} for ids in nics))


def _differ(values: Mapping[str, object], others: Mapping[str, object]) -> bool:
    return any(key in others and others[key] != value for key, value in values.items())


def check_operator_objects(corpus: Corpus) -> Iterator[Breach]:
    """Find mistakes in the configuration objects of the operators."""
    for doc in corpus.select_kinds("SriovOperatorConfig"):
        if doc.name != "default":
            message = f"the operator reads only the SriovOperatorConfig 'default', not {doc.name!r}"
            yield Breach("operator-config-name", doc.tree, ("metadata", "name"), message)
    yield from _check_dra(corpus)
    owners = {
        section: cluster
        for cluster in reversed(list(corpus.select_kinds("NicClusterPolicy")))
        for section in _SECTIONS
        if cluster.get("spec", section) is not None
    }
    for doc in corpus.select_kinds("NicNodePolicy"):
        if len(doc.name) > _NAME_LIMIT:
            message = f"the name is {len(doc.name)} characters long; the limit is {_NAME_LIMIT}"
            yield Breach("node-policy-name", doc.tree, ("metadata", "name"), message)
        for section, cluster in owners.items():
            if doc.get("spec", section) is not None:
                message = f"{section} is in {cluster.title} too"
                yield Breach("section-in-both-policies", doc.tree, ("spec", section), message, key=True)


def _check_dra(corpus: Corpus) -> Iterator[Breach]:
    configs = [
        doc
        for doc in corpus.select_kinds("SriovOperatorConfig")
        if doc.get("spec", "featureGates", "dynamicResourceAllocation") is True
    ]
    for doc in configs:
        if doc.get("spec", "enableInjector") is not False:
            message = "with dynamicResourceAllocation the injector must be off (enableInjector: false)"
            is_set = doc.get("spec", "enableInjector") is not None
            path = ("spec", "enableInjector") if is_set else ("spec", "featureGates", "dynamicResourceAllocation")
            yield Breach("injector-with-dra", doc.tree, path, message)
    for policy in corpus.select_kinds("NicClusterPolicy", "NicNodePolicy") if configs else ():
        if policy.get("spec", "sriovDevicePlugin") is not None:
            message = "the SR-IOV device plugin and dynamic resource allocation assign the same VFs"
            yield Breach("device-plugin-with-dra", policy.tree, ("spec", "sriovDevicePlugin"), message, key=True)


def check_nv_ipam_owner(corpus: Corpus) -> Iterator[Breach]:
    """Find CRDs of NV-IPAM beside a NicClusterPolicy by which the Network Operator takes them over."""
    owners = [doc for doc in corpus.select_kinds("NicClusterPolicy") if doc.get("spec", "nvIpam")]
    for crd in corpus.select_kinds("CustomResourceDefinition"):
        policy = next((policy for policy in owners if policy.folder == crd.folder), None)
        if policy and crd.get("spec", "group") == "nv-ipam.nvidia.com":
            message = (
                f"with {policy.title} the Network Operator takes this CRD over, and deletes it with all pools later"
            )
            yield Breach("nv-ipam-crd-taken-over", crd.tree, ("metadata", "name"), message)


CHECKS = (check_selectors, check_vfs, check_shared_ports, check_operator_objects, check_nv_ipam_owner)
