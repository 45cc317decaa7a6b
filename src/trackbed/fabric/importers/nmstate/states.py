"""Documents of nmstate, and the hosts that each is for.

A plain state is for the host of its file. A NodeNetworkConfigurationPolicy of kubernetes-nmstate is for the host that
its nodeSelector names by `kubernetes.io/hostname`, else for every host; a NodeNetworkState, and an NMStateConfig of
OpenShift's assisted installer, for the host of its own name.
"""

from collections.abc import Iterator
from typing import NamedTuple

from trackbed.fabric.importers.result import NOTE
from trackbed.fabric.importers.source import MAX_FILE_BYTES, HostFiles, NamedFile
from trackbed.fabric.importers.tree import Tree, find_place, get_scalar, get_text, get_tree, get_trees
from trackbed.fabric.model.problems import Place, Problem, SpecError
from trackbed.fabric.model.source import Scalar, YamlDocument, read_yaml

HOST_LABEL = "kubernetes.io/hostname"
MAX_COMMON_INTERFACES = 1000
"""Limit of the interfaces in policies for many hosts."""
_POLICY = "NodeNetworkConfigurationPolicy"


class State(NamedTuple):
    """A state of nmstate, and the file that holds it."""

    tree: Tree
    file: NamedFile
    macs: Tree
    """MAC address by name of an interface, where the document has them apart."""


class SiteStates(NamedTuple):
    """The states of each host, those for every host, and what was found in reading them."""

    by_host: dict[str, list[State]]
    common: list[State]
    problems: list[Problem]
    errors: dict[str, SpecError]
    """Why a host's file cannot be read."""


def read_states(files: HostFiles) -> SiteStates:
    """Return the states in the files of all hosts."""
    site = SiteStates({}, [], [], {})
    for host in sorted(files):
        for file in sorted(files[host]):
            try:
                for document in read_yaml(file[1], file[0], MAX_FILE_BYTES):
                    site.problems.extend(document.problems)
                    _add_document(site, host, file, document)
            except SpecError as error:
                site.errors[host] = error
    return site


def _add_document(site: SiteStates, host: str, file: NamedFile, document: YamlDocument) -> None:
    tree = document.to_scalars()
    if not isinstance(tree, dict) or not ({"interfaces", "routes", "kind"} & set(tree)):
        message = "this is no nmstate file: it has no list `interfaces` at the top, and no kind of kubernetes-nmstate"
        raise SpecError([Problem("no-state", message, place=document.find_place(()))])
    for item in get_trees(tree, "items") if "items" in tree else [tree]:
        _add_object(site, host, file, item)


def _add_object(site: SiteStates, host: str, file: NamedFile, item: Tree) -> None:
    kind, name = get_text(item, "kind"), get_text(get_tree(item, "metadata"), "name")
    if kind == _POLICY:
        state = State(get_tree(item, "spec", "desiredState"), file, {})
        target = get_scalar(get_tree(item, "spec", "nodeSelector"), HOST_LABEL)
        if target and target.text:
            _add_state(site, target.text, state)
        else:
            _add_common_state(site, name, state)
    elif kind == "NodeNetworkState":
        _add_state(site, name or host, State(get_tree(item, "status", "currentState"), file, {}))
    elif kind == "NMStateConfig":
        macs = {
            get_text(pair, "name"): pair.get("macAddress") for pair in get_trees(get_tree(item, "spec"), "interfaces")
        }
        _add_state(site, name or host, State(get_tree(item, "spec", "config"), file, macs))
    elif kind:
        message = f"kind {kind} holds no network state of a host; it is ignored"
        site.problems.append(Problem("other-kind", message, place=find_place(item), severity=NOTE))
    else:
        _add_state(site, host, State(item, file, {}))


def _add_state(site: SiteStates, host: str, state: State) -> None:
    site.by_host.setdefault(host, []).append(state)


def _add_common_state(site: SiteStates, name: str, state: State) -> None:
    """Add the state of a policy for many hosts, unless it has addresses, which only one host can have."""
    address = next(_iter_addresses(state.tree), None)
    count = sum(len(get_trees(other.tree, "interfaces")) for other in (*site.common, state))
    if address is None and count <= MAX_COMMON_INTERFACES:
        site.common.append(state)
        return
    if address is None:
        message = f"policies for many hosts have more than {MAX_COMMON_INTERFACES} interfaces; this one is left out"
        site.problems.append(Problem("too-large", message, place=Place(state.file[0], 1, 1)))
        return
    message = (
        f"policy {name} gives static addresses, as {address.text}, to every node that it selects; it is left out. Give "
        f"it nodeSelector {HOST_LABEL} if it is for one"
    )
    site.problems.append(Problem("many-hosts", message, place=address.place, severity="warning"))


def _iter_addresses(tree: Tree) -> Iterator[Scalar]:
    for entry in get_trees(tree, "interfaces"):
        for version in ("ipv4", "ipv6"):
            for address in get_trees(get_tree(entry, version), "address"):
                if scalar := get_scalar(address, "ip"):
                    yield scalar
