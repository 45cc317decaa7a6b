"""What containers need besides the NIC itself."""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.model.problems import Path
from trackbed.lint.corpus import Corpus
from trackbed.lint.document import NETWORKS
from trackbed.lint.finding import Hit
from trackbed.lint.pods import Asked, Pod, is_nic
from trackbed.lint.tree import dig, mappings

_MANY = 2
_SHM = "/dev/shm"  # noqa: S108 - a path inside the pod


def memory_lock(corpus: Corpus) -> Iterator[Hit]:
    """RDMA without the right to pin memory."""
    for pod in corpus.pods:
        asking = {asked.container: asked for asked in reversed(pod.nics())}
        for path, asked in sorted(asking.items(), key=lambda item: str(item[0])):
            yield from _memory_lock(pod, path, asked)


def _memory_lock(pod: Pod, path: Path, asked: Asked) -> Iterator[Hit]:
    context = pod.doc.mapping(*path, "securityContext")
    added = dig(context, "capabilities", "add")
    capabilities = {str(name) for name in added} if isinstance(added, list) else set()
    if context.get("privileged") is True or capabilities & {"ALL"}:
        return
    tree = pod.doc.tree
    if "CAP_IPC_LOCK" in capabilities:
        message = "Kubernetes names capabilities without CAP_: write IPC_LOCK"
        yield Hit("capability-prefix", tree, (*path, "securityContext", "capabilities", "add"), message)
    elif "IPC_LOCK" not in capabilities:
        message = f"the container asks for {asked.name} and has no capability IPC_LOCK"
        yield Hit("ipc-lock-missing", tree, (*path, "resources"), message, key=True)
    elif _user(pod, context) and context.get("allowPrivilegeEscalation") is not True:
        message = (
            f"IPC_LOCK has no effect for user {_user(pod, context)}: a user other than 0 gets no effective capabilities"
        )
        yield Hit("ipc-lock-inert", tree, (*path, "securityContext", "capabilities", "add"), message)


def _user(pod: Pod, context: dict[str, object]) -> int:
    own, shared = context.get("runAsUser"), pod.get("spec", "securityContext", "runAsUser")
    return next((user for user in (own, shared) if isinstance(user, int)), 0)


def shared_memory(corpus: Corpus) -> Iterator[Hit]:
    """Several GPUs and the 64 MiB that a runtime gives /dev/shm."""
    for pod in corpus.pods:
        if pod.gpus() < _MANY or not pod.nics() or pod.get("spec", "hostIPC") is True:
            continue
        in_memory = {
            str(volume.get("name"))
            for _, volume in mappings(pod.get("spec", "volumes"))
            if dig(volume, "emptyDir", "medium") == "Memory" or dig(volume, "hostPath", "path") == _SHM
        }
        for path, container in pod.containers():
            mounts = {
                str(mount.get("name"))
                for _, mount in mappings(container.get("volumeMounts"))
                if mount.get("mountPath") == _SHM
            }
            if any(asked.container == path for asked in pod.nics()) and not mounts & in_memory:
                message = f"{_SHM} is the runtime's 64 MiB: no memory-backed volume is mounted there"
                yield Hit("shm-missing", pod.doc.tree, path, message)


def huge_pages(corpus: Corpus) -> Iterator[Hit]:
    """Huge pages without memory or CPU, or unequal."""
    for pod in corpus.pods:
        for path, container in pod.containers(init=True):
            limits, requests = (dig(container, "resources", part) or {} for part in ("limits", "requests"))
            if not isinstance(limits, dict) or not isinstance(requests, dict):
                continue
            pages = [name for name in {**limits, **requests} if name.startswith("hugepages-")]
            if pages and not {"cpu", "memory"} & {*limits, *requests}:
                message = f"{pages[0]} needs cpu or memory beside it"
                yield Hit("hugepages-alone", pod.doc.tree, (*path, "resources"), message, key=True)
            for name in pages:
                if requests.get(name, limits.get(name)) != limits.get(name):
                    yield Hit(
                        "request-differs",
                        pod.doc.tree,
                        (*path, "resources"),
                        f"request and limit of {name} differ",
                        key=True,
                    )


def extended(corpus: Corpus) -> Iterator[Hit]:
    """Extended resources: whole numbers, requests equal to limits."""
    for pod in corpus.pods:
        for asked in pod.resources:
            path: Path = (*asked.container, "resources")
            limit, request = (pod.doc.get(*path, part, asked.name) for part in ("limits", "requests"))
            if limit is None or (request is not None and str(request) != str(limit)):
                message = f"{asked.name} has " + (
                    "a request and no limit" if limit is None else f"request {request} and limit {limit}"
                )
                yield Hit("request-differs", pod.doc.tree, asked.path, message, key=True)
            if not str(asked.amount).isdigit():
                message = f"{asked.name} is {asked.amount}; it must be a whole number"
                yield Hit("resource-not-whole", pod.doc.tree, asked.path, message)
            if _is_shared(corpus, asked.name) and str(asked.amount).isdigit() and int(str(asked.amount)) > 1:
                message = f"{asked.amount} shares of {asked.name} give no more than one does"
                yield Hit("shared-resource-count", pod.doc.tree, asked.path, message)


def _is_shared(corpus: Corpus, name: str) -> bool:
    """Whether a resource is a shared device's: a plugin in the input says so, or its prefix and name do.

    The prefix alone tells nothing: clouds count VFs as rdma/ib too.
    """
    offered = [offer for offer in corpus.offers if name in offer.names]
    return any(offer.plugin == "rdma" for offer in offered) or (name.startswith("rdma/") and "shared" in name)


def rails(corpus: Corpus) -> Iterator[Hit]:
    """Rails and GPUs that do not go together."""
    for pod in corpus.pods:
        gpus, networks = pod.gpus(), len(pod.networks)
        usual = {gpus, gpus * 2, gpus // 2}
        if gpus >= _MANY and networks and networks not in usual:
            message = f"{gpus} GPUs share {networks} network{'s' if networks != 1 else ''}"
            path: Path = (*pod.path, "metadata", "annotations", NETWORKS)
            yield Hit("rails-not-gpus", pod.doc.tree, path, message, key=True)
        with_gpu = {asked.container for asked in pod.resources if not is_nic(asked.name) and "gpu" in asked.name}
        for asked in pod.nics():
            if with_gpu and asked.container not in with_gpu:
                message = f"{asked.name} goes to another container than the GPUs"
                yield Hit("nic-on-other-container", pod.doc.tree, asked.path, message, key=True)


def host_network(corpus: Corpus) -> Iterator[Hit]:
    """Pods on the host's network."""
    for pod in corpus.pods:
        if pod.get("spec", "hostNetwork") is not True:
            continue
        if pod.networks:
            path: Path = (*pod.path, "metadata", "annotations", NETWORKS)
            message = "hostNetwork is true, so no network of this annotation is attached"
            yield Hit("host-network-with-networks", pod.doc.tree, path, message, key=True)
        if pod.gpus() and (pod.get("spec", "dnsPolicy") or "ClusterFirst") == "ClusterFirst":
            message = "with hostNetwork the default dnsPolicy resolves no service names"
            yield Hit("host-network-dns", pod.doc.tree, (*pod.path, "spec", "hostNetwork"), message, key=True)


CHECKS = (memory_lock, shared_memory, huge_pages, extended, rails, host_network)
