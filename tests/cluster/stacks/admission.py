"""Pods and namespaces with the annotation trackbed.dev/rails, and what a real API server makes of them."""

from __future__ import annotations

from typing import Any

from trackbed_lab.kubernetes.blocking import BlockingClient

from tests.cluster.stacks.fabric_of import FLAT, fabric
from tests.waiting import wait_until
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.api.response import Object
from trackbed.cluster.stacks.native.annotation import build_policies

RAILS = "trackbed.dev/rails"


def pod(value: str | None = None, namespace: str = "default", **spec: Any) -> Object:
    """A pod of one container, with the annotation or without."""
    annotations = {} if value is None else {RAILS: value}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "job", "namespace": namespace, "annotations": annotations},
        "spec": {"containers": [container("main")], **spec},
    }


def container(name: str, **limits: str) -> dict[str, Any]:
    """A container with limits, `nvidia__gpu` for nvidia.com/gpu."""
    named = {f"{key.replace('__', '.com/')}": value for key, value in limits.items()}
    return {"name": name, "image": "i", "resources": {"limits": named}}


def given_rails(client: BlockingClient, manifest: Object) -> dict[str, list[int]]:
    """By container, the rails that a pod asks for once it is created; each as limit and as request, one of each."""
    made = client.create(manifest, dry_run=True).body
    result = {}
    for each in (*made["spec"]["containers"], *made["spec"].get("initContainers", ())):
        limits, requests = (_ours(each["resources"].get(key, {})) for key in ("limits", "requests"))
        assert limits == requests
        assert set(limits.values()) <= {"1"}
        if limits:
            result[each["name"]] = sorted(int(name.removeprefix("trackbed.dev/rail")) for name in limits)
    return result


def refusal(client: BlockingClient, manifest: Object) -> str:
    """Why an object is refused, empty if it is not."""
    try:
        client.create(manifest, dry_run=True)
    except ApiRefusedError as error:
        return error.message
    return ""


def _ours(quantities: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in quantities.items() if name.startswith("trackbed.dev/")}


def install(client: BlockingClient, rails: int) -> None:
    """Make the policies of a fabric with so many rails, and wait until the API server goes by them."""
    nodes = [{"hosts": "gpu-0", "ports": [f"port{rail}" for rail in range(rails)]}]
    for manifest in build_policies(fabric(rails, nodes, addressing=FLAT)):
        client.apply(manifest, force=True)
    words = "has rail 0 only" if rails == 1 else f"has rails 0 to {rails - 1}"
    wait_until(lambda: words in refusal(client, pod("wrong")) and _gives(client, rails), "the policies are in force")


def _gives(client: BlockingClient, rails: int) -> bool:
    """Whether all policies are in force: by annotation, by namespace, and the label that the latter needs."""
    name = f"ready-{rails}"
    labels = client.apply(namespace(name, "all")).body["metadata"]["labels"]
    account(client, name)
    wanted = {"main": list(range(rails))}
    if RAILS not in labels or refusal(client, pod("all")):
        return False
    return (given_rails(client, pod("all")), given_rails(client, pod(namespace=name))) == (wanted, wanted)


def namespace(name: str, value: str | None = None) -> Object:
    """A namespace, with a default or without."""
    annotations = {} if value is None else {RAILS: value}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "annotations": annotations}}


def account(client: BlockingClient, name: str) -> None:
    """The service account that pods need; without controllers nobody makes it."""
    client.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}})
