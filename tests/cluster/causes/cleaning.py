"""Pods, events and what they wait for, taken away between tests on one API server."""

from trackbed_lab.kubernetes.blocking import BlockingClient

_KINDS = (
    ("v1", "Pod"),
    ("v1", "Event"),
    ("v1", "Node"),
    ("policy/v1", "PodDisruptionBudget"),
    ("resource.k8s.io/v1", "ResourceSlice"),
)


def delete_waiting(client: BlockingClient) -> None:
    """Delete them all; pods at once, since there is no kubelet that ends them."""
    for api, kind in _KINDS:
        for body in client.list(api, kind):
            client.delete(body)
    while left := client.list("v1", "Pod"):
        for body in left:
            path = f"/api/v1/namespaces/{body['metadata']['namespace']}/pods/{body['metadata']['name']}"
            client.run(client.dynamic.client.request("DELETE", path, params={"gracePeriodSeconds": "0"}))
