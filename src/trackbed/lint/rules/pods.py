"""Rules for containers: capabilities, shared memory, huge pages, resources, hostNetwork."""

import re
from collections.abc import Iterator
from pathlib import PurePath

from trackbed.fabric.model.problems import Path
from trackbed.fabric.quantities import is_same_quantity
from trackbed.lint.corpus import Corpus
from trackbed.lint.document import NETWORKS
from trackbed.lint.finding import Breach
from trackbed.lint.offers import Offer
from trackbed.lint.pods import PodTemplate, ResourceRequest, is_nic_resource
from trackbed.lint.schemas.partial import is_partial
from trackbed.lint.tree import dig, enumerate_mappings, enumerate_texts

_SEVERAL_GPUS = 2
_IMAGE_KINDS = {
    *(("", kind) for kind in ("Pod", "ReplicationController", "PodTemplate")),
    *(("apps", kind) for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")),
    *(("batch", kind) for kind in ("Job", "CronJob")),
    *(("kubeflow.org", kind) for kind in ("MPIJob", "PyTorchJob", "TFJob", "JAXJob", "PaddleJob", "XGBoostJob")),
    *(("jobset.x-k8s.io", "JobSet"), ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"), ("batch.volcano.sh", "Job")),
}
"""Group and kind of the objects whose containers no other object completes."""
_TEMPLATE_FILE = re.compile(r"(?:^|[-_.])templates?[-_.]")
_RDMA_TOOL = re.compile(
    r"\bib_(?:write|read|send)_(?:bw|lat)\b|\bperftest\b|\brdma\b|\bibv_\w+|\bucx_perftest\b|\brping\b"
)
_RDMA_PREFIXES = {"rdma", "nvidia.com", "mellanox.com"}
"""Prefixes of resources whose NICs are RDMA devices."""
_RDMA_NAME = re.compile(r"rdma|roce|infiniband|hca|rail|(?:^|[-_])ib")
"""Names of resources whose devices are used by RDMA."""
_MERGED_KINDS = {"LLMInferenceService", "LLMInferenceServiceConfig"}
"""Kinds whose containers are merged over those of a base that is not in the file (KServe,
pkg/controller/v1alpha1/llmisvc/config_merge.go).
"""
_RAY_KINDS = {"RayCluster", "RayJob", "RayService"}
_SHM_KINDS = {*_RAY_KINDS, "DynamoGraphDeployment", "DynamoComponentDeployment"}
"""Kinds whose operator mounts memory at /dev/shm where nothing is (KubeRay: addEmptyDir; Dynamo: sharedMemory)."""
_PEER_KINDS = _RAY_KINDS | {
    *("MPIJob", "PyTorchJob", "TFJob", "JAXJob", "PaddleJob", "XGBoostJob", "TrainJob"),
    *("TrainingRuntime", "ClusterTrainingRuntime", "JobSet", "LeaderWorkerSet"),
}
"""Kinds whose pods find each other by the name of a service."""
_SERVICE = re.compile(r"""\.svc\b|(?:^|[\s=,"'/@])(?!localhost:)[a-z][a-z0-9-]*(?:\.[a-z0-9-]+)*:\d{2,5}\b""")
"""Matches the name of a service, or a host's name with a port."""
_SHM = "/dev/shm"  # noqa: S108 - a path inside the pod


def check_memory_lock(corpus: Corpus) -> Iterator[Breach]:
    """Find containers that use RDMA without the capability to pin memory."""
    for pod in corpus.pods:
        if pod.doc.kind in _MERGED_KINDS:
            continue
        nics = [request for request in pod.list_nic_requests() if _is_rdma(corpus, pod, request)]
        requests = {request.container: request for request in reversed(nics)}
        for path, request in sorted(requests.items(), key=lambda item: str(item[0])):
            yield from _check_container_memory_lock(pod, path, request)


def _is_rdma(corpus: Corpus, pod: PodTemplate, request: ResourceRequest) -> bool:
    """Return whether a container uses a NIC by RDMA, according to the resource, its plugin or NCCL's variables."""
    prefix, _, name = request.name.partition("/")
    if prefix in _RDMA_PREFIXES or _RDMA_NAME.search(name):
        return True
    offers = [offer for offer in corpus.offers if request.name in offer.full_names]
    if any(offer.plugin == "rdma" or _offers_rdma(offer) for offer in offers):
        return True
    container = pod.doc.get_mapping(*request.container)
    names = {env.get("name") for _, env in enumerate_mappings(container.get("env"))}
    texts = [text for field in ("command", "args") for _, text in enumerate_texts(container.get(field))]
    return any(isinstance(name, str) and name.startswith(("NCCL_IB_", "UCX_")) for name in names) or any(
        _RDMA_TOOL.search(text) for text in [str(container.get("image")), *texts]
    )


def _offers_rdma(offer: Offer) -> bool:
    """Return whether an SR-IOV policy or an entry of the SR-IOV device plugin gives RDMA devices."""
    selectors = offer.tree.get(*offer.path[:-1], "selectors")
    entries = [selectors, *(selectors if isinstance(selectors, list) else [])]
    return offer.doc.get("spec", "isRdma") is True or any(dig(entry, "isRdma") is True for entry in entries)


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
    elif (user := _find_user_id(pod, context)) and context.get("allowPrivilegeEscalation") is not True:
        message = f"IPC_LOCK has no effect for user {user}: a user other than 0 gets no effective capabilities"
        yield Breach("ipc-lock-inert", tree, (*path, "securityContext", "capabilities", "add"), message)


def _find_user_id(pod: PodTemplate, context: dict[str, object]) -> int:
    users = (context.get("runAsUser"), pod.get("spec", "securityContext", "runAsUser"))
    return next((user for user in users if isinstance(user, int)), 0)


def check_shared_memory(corpus: Corpus) -> Iterator[Breach]:
    """Find pods with several GPUs that keep the runtime's default /dev/shm of 64 MiB."""
    for pod in corpus.pods:
        if pod.doc.kind in _MERGED_KINDS | _SHM_KINDS or pod.get("spec", "hostIPC") is True:
            continue
        if pod.count_gpus() < _SEVERAL_GPUS or not pod.list_nic_requests():
            continue
        in_memory = {
            str(volume.get("name"))
            for _, volume in enumerate_mappings(pod.get("spec", "volumes"))
            if dig(volume, "emptyDir", "medium") == "Memory" or dig(volume, "hostPath", "path") == _SHM
        }
        with_nics = {request.container for request in pod.list_nic_requests()}
        for path, container in pod.list_containers():
            mounts = {
                str(mount.get("name"))
                for _, mount in enumerate_mappings(container.get("volumeMounts"))
                if mount.get("mountPath") == _SHM
            }
            if path in with_nics and not mounts & in_memory and "volumes" not in container:  # an operator's, as Flux's
                message = f"{_SHM} is the runtime's 64 MiB: no memory-backed volume is mounted there"
                yield Breach("shm-missing", pod.doc.tree, path, message)


def check_huge_pages(corpus: Corpus) -> Iterator[Breach]:
    """Find containers that request huge pages without memory or CPU, or with a request that differs from the limit."""
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
                if not is_same_quantity(requests.get(name, limits.get(name)), limits.get(name)):
                    message = f"request and limit of {name} differ"
                    yield Breach("request-differs", pod.doc.tree, (*path, "resources"), message, key=True)


def check_extended_resources(corpus: Corpus) -> Iterator[Breach]:
    """Find extended resources that are not whole numbers, or whose request differs from the limit."""
    for pod in corpus.pods:
        for request in pod.resources:
            path: Path = (*request.container, "resources")
            limit, requested = (pod.doc.get(*path, part, request.name) for part in ("limits", "requests"))
            if request.amount is None:
                message = f"{request.name} is empty; it must be a whole number"
                yield Breach("resource-not-whole", pod.doc.tree, request.path, message, key=True)
                continue
            if limit is None or (requested is not None and not is_same_quantity(requested, limit)):
                message = f"{request.name} has " + (
                    "a request and no limit" if limit is None else f"request {requested} and limit {limit}"
                )
                yield Breach("request-differs", pod.doc.tree, request.path, message, key=True)
            if request.number is None:
                message = f"{request.name} is {request.amount}; it must be a whole number"
                yield Breach("resource-not-whole", pod.doc.tree, request.path, message)
            if (request.number or 0) > 1 and _is_shared_device(corpus, request.name):
                message = f"{request.amount} shares of {request.name} have no more effect than one"
                yield Breach("shared-resource-count", pod.doc.tree, request.path, message)


def _is_shared_device(corpus: Corpus, resource_name: str) -> bool:
    """Return whether a resource is a shared device, according to a plugin of the input or to its prefix and name.

    The prefix alone is not sufficient, because some clouds advertise VFs as rdma/ib.
    """
    offered = [offer for offer in corpus.offers if resource_name in offer.full_names]
    return any(offer.plugin == "rdma" for offer in offered) or (
        resource_name.startswith("rdma/") and "shared" in resource_name
    )


def check_rails(corpus: Corpus) -> Iterator[Breach]:
    """Find pods whose number of rails does not suit their number of GPUs, and NICs in a container without the GPUs.

    A network of IPoIB is no rail: it has addresses for rdma_cm, and the devices come with a resource.
    """
    for pod in corpus.pods:
        gpus, networks = pod.count_gpus(), len(pod.networks)
        has_rails = all(network.type != "ipoib" for network in corpus.find_networks(pod))
        nics = sum(request.number or 0 for request in pod.list_nic_requests())  # one network may attach several
        if has_rails and gpus >= _SEVERAL_GPUS and 0 < networks < gpus and networks * 2 != gpus and nics <= networks:
            message = f"{gpus} GPUs share {networks} network{'s' if networks != 1 else ''}"
            path = pod.locate("metadata", "annotations", NETWORKS)
            yield Breach("rails-not-gpus", pod.doc.tree, path, message, key=True)
        gpu_containers = {
            request.container
            for request in pod.resources
            if not is_nic_resource(request.name) and "gpu" in request.name
        }
        for request in pod.list_nic_requests():
            if gpu_containers and request.container not in gpu_containers:
                message = f"{request.name} goes to another container than the GPUs"
                yield Breach("nic-on-other-container", pod.doc.tree, request.path, message, key=True)


def check_host_network(corpus: Corpus) -> Iterator[Breach]:
    """Find pods with hostNetwork that request secondary networks, or have the wrong DNS policy."""
    for pod in corpus.pods:
        if pod.get("spec", "hostNetwork") is not True:
            continue
        if pod.networks:
            path = pod.locate("metadata", "annotations", NETWORKS)
            message = "hostNetwork is true, so no network of this annotation is attached"
            yield Breach("host-network-with-networks", pod.doc.tree, path, message, key=True)
        is_default = (pod.get("spec", "dnsPolicy") or "ClusterFirst") == "ClusterFirst"
        if is_default and pod.count_gpus() and (pod.doc.kind in _PEER_KINDS or _names_service(pod)):
            message = "with hostNetwork the default dnsPolicy resolves no service names"
            yield Breach("host-network-dns", pod.doc.tree, pod.locate("spec", "hostNetwork"), message, key=True)


def _names_service(pod: PodTemplate) -> bool:
    """Return whether a container's command or variables name another host."""
    containers = [container for _, container in pod.list_containers(init=True)]
    texts = [
        text
        for container in containers
        for field in ("command", "args")
        for _, text in enumerate_texts(container.get(field))
    ]
    texts += [str(env.get("value")) for container in containers for _, env in enumerate_mappings(container.get("env"))]
    return any(_SERVICE.search(text) for text in texts)


def check_images(corpus: Corpus) -> Iterator[Breach]:
    """Find containers without an image in kinds whose pods are created as they are written.

    A file that is called a template is not: Spark and others fill it in.
    """
    for pod in corpus.pods:
        if pod.is_bare or (pod.doc.group, pod.doc.kind) not in _IMAGE_KINDS or is_partial(pod.doc, ()):
            continue
        if _TEMPLATE_FILE.search(PurePath(pod.doc.tree.source.file).name):
            continue
        for path, container in pod.list_containers(init=True):
            image = container.get("image")
            if image is None or image == "":
                where = (*path, "image") if "image" in container else path
                name = container.get("name")
                message = f"container {name} has no image" if isinstance(name, str) else "the container has no image"
                yield Breach("image-missing", pod.doc.tree, where, message)


def check_claims(corpus: Corpus) -> Iterator[Breach]:
    """Find claims that none of a pod's containers names, although they name others.

    Where they name none, the driver may serve the whole pod, as DRANET does by NRI.
    """
    for pod in corpus.pods:
        uses = {
            str(claim.get("name"))
            for _, container in pod.list_containers(init=True)
            for _, claim in enumerate_mappings(dig(container, "resources", "claims"))
        }
        for number, claim in enumerate_mappings(pod.get("spec", "resourceClaims")):
            name = claim.get("name")
            if isinstance(name, str) and uses and name not in uses:
                path = pod.locate("spec", "resourceClaims", number, "name")
                message = f"no container names claim {name}: only a driver that serves whole pods gives its devices"
                yield Breach("claim-unused", pod.doc.tree, path, message)


CHECKS = (
    check_images,
    check_claims,
    check_memory_lock,
    check_shared_memory,
    check_huge_pages,
    check_extended_resources,
    check_rails,
    check_host_network,
)
