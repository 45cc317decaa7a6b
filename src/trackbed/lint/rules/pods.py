"""Rules of containers: capabilities, shared memory, huge pages, resources, host network."""

from collections.abc import Iterator

from trackbed.fabric.model.problems import Path
from trackbed.lint.corpus import Corpus
from trackbed.lint.document import NETWORKS
from trackbed.lint.finding import Breach
from trackbed.lint.pods import PodTemplate, ResourceRequest, is_nic
from trackbed.lint.tree import dig, list_mappings

_MANY = 2
_SHM = "/dev/shm"  # noqa: S108 - a path inside the pod


def check_memory_lock(corpus: Corpus) -> Iterator[Breach]:
    """Find containers that use RDMA without the capability to pin memory."""
    for pod in corpus.pods:
        requests = {request.container: request for request in reversed(pod.list_nics())}
        for path, request in sorted(requests.items(), key=lambda item: str(item[0])):
            yield from _check_container_memory_lock(pod, path, request)


def _check_container_memory_lock(pod: PodTemplate, path: Path, request: ResourceRequest) -> Iterator[Breach]:
    context = pod.doc.get_mapping(*path, "securityContext")
    added = dig(context, "capabilities", "add")
    capabilities = {str(name) for name in added} if isinstance(added, list) else set()
    if context.get("privileged") is True or capabilities & {"ALL"}:
        return
    tree = pod.doc.tree
    if "CAP_IPC_LOCK" in capabilities:
        message = "Kubernetes names capabilities without CAP_: write IPC_LOCK"
        yield Breach("capability-prefix", tree, (*path, "securityContext", "capabilities", "add"), message)
    elif "IPC_LOCK" not in capabilities:
        message = f"the container asks for {request.name} and has no capability IPC_LOCK"
        yield Breach("ipc-lock-missing", tree, (*path, "resources"), message, key=True)
    elif (user := _find_user(pod, context)) and context.get("allowPrivilegeEscalation") is not True:
        message = f"IPC_LOCK has no effect for user {user}: a user other than 0 gets no effective capabilities"
        yield Breach("ipc-lock-inert", tree, (*path, "securityContext", "capabilities", "add"), message)


def _find_user(pod: PodTemplate, context: dict[str, object]) -> int:
    users = (context.get("runAsUser"), pod.get("spec", "securityContext", "runAsUser"))
    return next((user for user in users if isinstance(user, int)), 0)


def check_shared_memory(corpus: Corpus) -> Iterator[Breach]:
    """Find pods with several GPUs and the runtime's default /dev/shm of 64 MiB."""
    for pod in corpus.pods:
        if pod.count_gpus() < _MANY or not pod.list_nics() or pod.get("spec", "hostIPC") is True:
            continue
        in_memory = {
            str(volume.get("name"))
            for _, volume in list_mappings(pod.get("spec", "volumes"))
            if dig(volume, "emptyDir", "medium") == "Memory" or dig(volume, "hostPath", "path") == _SHM
        }
        for path, container in pod.list_containers():
            mounts = {
                str(mount.get("name"))
                for _, mount in list_mappings(container.get("volumeMounts"))
                if mount.get("mountPath") == _SHM
            }
            if any(request.container == path for request in pod.list_nics()) and not mounts & in_memory:
                message = f"{_SHM} is the runtime's 64 MiB: no memory-backed volume is mounted there"
                yield Breach("shm-missing", pod.doc.tree, path, message)


def check_huge_pages(corpus: Corpus) -> Iterator[Breach]:
    """Find huge pages without memory or CPU, or with a request that differs from the limit."""
    for pod in corpus.pods:
        for path, container in pod.list_containers(init=True):
            limits, requests = (dig(container, "resources", part) or {} for part in ("limits", "requests"))
            if not isinstance(limits, dict) or not isinstance(requests, dict):
                continue
            pages = [name for name in {**limits, **requests} if name.startswith("hugepages-")]
            if pages and not {"cpu", "memory"} & {*limits, *requests}:
                message = f"{pages[0]} needs cpu or memory beside it"
                yield Breach("hugepages-alone", pod.doc.tree, (*path, "resources"), message, key=True)
            for name in pages:
                if requests.get(name, limits.get(name)) != limits.get(name):
                    message = f"request and limit of {name} differ"
                    yield Breach("request-differs", pod.doc.tree, (*path, "resources"), message, key=True)


def check_extended_resources(corpus: Corpus) -> Iterator[Breach]:
    """Find extended resources that are not whole numbers, or whose request differs from the limit."""
    for pod in corpus.pods:
        for request in pod.resources:
            path: Path = (*request.container, "resources")
            limit, requested = (pod.doc.get(*path, part, request.name) for part in ("limits", "requests"))
            if limit is None or (requested is not None and str(requested) != str(limit)):
                message = f"{request.name} has " + (
                    "a request and no limit" if limit is None else f"request {requested} and limit {limit}"
                )
                yield Breach("request-differs", pod.doc.tree, request.path, message, key=True)
            if not str(request.amount).isdigit():
                message = f"{request.name} is {request.amount}; it must be a whole number"
                yield Breach("resource-not-whole", pod.doc.tree, request.path, message)
            if _is_shared(corpus, request.name) and str(request.amount).isdigit() and int(str(request.amount)) > 1:
                message = f"{request.amount} shares of {request.name} have no more effect than one"
                yield Breach("shared-resource-count", pod.doc.tree, request.path, message)


def _is_shared(corpus: Corpus, name: str) -> bool:
    """Return whether a resource is a shared device, by a plugin of the input or by its prefix and name.

    The prefix alone does not suffice: some clouds count VFs as rdma/ib.
    """
    offered = [offer for offer in corpus.offers if name in offer.names]
    return any(offer.plugin == "rdma" for offer in offered) or (name.startswith("rdma/") and "shared" in name)


def check_rails(corpus: Corpus) -> Iterator[Breach]:
    """Find pods whose numbers of rails and GPUs do not fit, and NICs on other containers than the GPUs."""
    for pod in corpus.pods:
        gpus, networks = pod.count_gpus(), len(pod.networks)
        usual = {gpus, gpus * 2, gpus // 2}
        if gpus >= _MANY and networks and networks not in usual:
            message = f"{gpus} GPUs share {networks} network{'s' if networks != 1 else ''}"
            path: Path = (*pod.path, "metadata", "annotations", NETWORKS)
            yield Breach("rails-not-gpus", pod.doc.tree, path, message, key=True)
        gpu_containers = {
            request.container for request in pod.resources if not is_nic(request.name) and "gpu" in request.name
        }
        for request in pod.list_nics():
            if gpu_containers and request.container not in gpu_containers:
                message = f"{request.name} goes to another container than the GPUs"
                yield Breach("nic-on-other-container", pod.doc.tree, request.path, message, key=True)


def check_host_network(corpus: Corpus) -> Iterator[Breach]:
    """Find pods on the host's network with networks of their own, or with the wrong DNS policy."""
    for pod in corpus.pods:
        if pod.get("spec", "hostNetwork") is not True:
            continue
        if pod.networks:
            path: Path = (*pod.path, "metadata", "annotations", NETWORKS)
            message = "hostNetwork is true, so no network of this annotation is attached"
            yield Breach("host-network-with-networks", pod.doc.tree, path, message, key=True)
        if pod.count_gpus() and (pod.get("spec", "dnsPolicy") or "ClusterFirst") == "ClusterFirst":
            message = "with hostNetwork the default dnsPolicy resolves no service names"
            yield Breach("host-network-dns", pod.doc.tree, (*pod.path, "spec", "hostNetwork"), message, key=True)


CHECKS = (
    check_memory_lock,
    check_shared_memory,
    check_huge_pages,
    check_extended_resources,
    check_rails,
    check_host_network,
)
