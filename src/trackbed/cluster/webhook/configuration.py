"""The objects that register the webhook: MutatingWebhookConfiguration and ValidatingWebhookConfiguration.

    namespaces with label trackbed.dev/rails    every pod is reviewed; without a response it is refused
    all other namespaces                        pods with a request annotation are reviewed; without a response they
                                                are admitted unchanged
    our own namespace and kube-system           nothing is reviewed

So an outage of the webhook affects no other namespace, and never prevents the webhook from starting again. Fabrics and
RailNodes are reviewed only where relevant fields change; during an outage these changes are refused.
"""

from typing import Any

import msgspec

from trackbed.cluster.stacks.native.annotation import LABEL
from trackbed.cluster.stacks.objects import Manifest, manifest, without_none
from trackbed.cluster.webhook.pods import MIRROR
from trackbed.cluster.webhook.rail_requests import REQUEST_ANNOTATIONS

API = "admissionregistration.k8s.io/v1"
NAME = "trackbed"
NAMESPACE = "trackbed-system"
SERVICE = "trackbed-webhook"
INJECTED = "cert-manager.io/inject-ca-from"
"""Annotation that requests an authority from cert-manager's CA injector: namespace and name of a Certificate."""
TIMEOUT_SECONDS = 3
"""Deadline of the API server: a review takes a millisecond, and pods of opted-in namespaces wait for it."""
PODS, PODS_LAST, NAMESPACES, FABRICS, RAILNODES = "/pods", "/pods/last", "/namespaces", "/fabrics", "/railnodes"

_NAMESPACE_NAME = "kubernetes.io/metadata.name"
_NO_MIRROR = {
    "name": "is-run-by-the-cluster",
    "expression": f"!('{MIRROR}' in object.metadata.?annotations.orValue({{}}))",
}
_HAS_REQUEST = {
    "name": "asks-for-rails",
    "expression": f"object.metadata.?annotations.orValue({{}}).exists(name, name in {list(REQUEST_ANNOTATIONS)})",
}
_NOT_DELETED = {"name": "is-not-being-deleted", "expression": "!has(object.metadata.deletionTimestamp)"}
_NEW_SLOT = {
    "name": "gets-a-slot",
    "expression": "oldObject == null || object.spec.fabric != oldObject.spec.fabric"
    " || object.spec.slot != oldObject.spec.slot",
}
"""The controller writes all other fields of a RailNode, also during an outage of the webhook."""
_NEW_SPEC = {"name": "says-something-new", "expression": "oldObject == null || object.spec != oldObject.spec"}


class WebhookEndpoint(msgspec.Struct, frozen=True):
    """How the API server reaches the webhook: a Service on port 443, or a URL outside the cluster."""

    namespace: str = NAMESPACE
    """The webhook's own namespace, which is never reviewed."""
    service: str = SERVICE
    url: str | None = None
    """`https://HOST:PORT`, without a path."""

    @property
    def names(self) -> tuple[str, ...]:
        """The DNS names for which the API server requires a certificate."""
        return (f"{self.service}.{self.namespace}.svc", f"{self.service}.{self.namespace}.svc.cluster.local")


def build_configurations(endpoint: WebhookEndpoint, bundle: bytes | None) -> tuple[Manifest, Manifest]:
    """Return both configurations. `bundle` holds the authorities to trust as PEM.

    None leaves that field to cert-manager's CA injector, with the authority of the Certificate named as the Service.
    """
    builder = _Builder(endpoint, bundle)
    return builder.build_mutating(), builder.build_validating()


class _Builder(msgspec.Struct, frozen=True):
    endpoint: WebhookEndpoint
    bundle: bytes | None

    def build_mutating(self) -> Manifest:
        namespaces = self._build_webhook(
            "namespaces",
            NAMESPACES,
            "Ignore",
            rules=[_build_rule("", "v1", "namespaces", "CREATE", "UPDATE")],
            matchConditions=[_NOT_DELETED, _HAS_REQUEST],
            reinvocationPolicy="IfNeeded",
        )
        webhooks = [*self._build_pod_webhooks(PODS, reinvocationPolicy="IfNeeded"), namespaces]
        return self._build_configuration("MutatingWebhookConfiguration", webhooks)

    def build_validating(self) -> Manifest:
        resources = [
            self._build_webhook(
                name,
                path,
                "Fail",
                rules=[_build_rule("trackbed.dev", "v1alpha1", name, "CREATE", "UPDATE")],
                matchConditions=[_NOT_DELETED, condition],
            )
            for name, path, condition in (("fabrics", FABRICS, _NEW_SPEC), ("railnodes", RAILNODES, _NEW_SLOT))
        ]
        webhooks = [*self._build_pod_webhooks(PODS_LAST), *resources]
        return self._build_configuration("ValidatingWebhookConfiguration", webhooks)

    def _build_configuration(self, kind: str, webhooks: list[dict[str, Any]]) -> Manifest:
        certificate = f"{self.endpoint.namespace}/{self.endpoint.service}"
        annotations = {INJECTED: certificate} if self.bundle is None else None
        return manifest(API, kind, NAME, annotations=annotations, webhooks=webhooks)

    def _build_webhook(self, name: str, path: str, failure: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - its fields
        return {
            "name": f"{name}.trackbed.dev",
            "admissionReviewVersions": ["v1"],
            "clientConfig": self._build_client_config(path),
            "failurePolicy": failure,
            "matchPolicy": "Equivalent",
            "sideEffects": "None",
            "timeoutSeconds": TIMEOUT_SECONDS,
            **fields,
        }

    def _build_client_config(self, path: str) -> dict[str, Any]:
        endpoint = self.endpoint
        service = {"namespace": endpoint.namespace, "name": endpoint.service, "path": path, "port": 443}
        address = {"url": f"{endpoint.url}{path}"} if endpoint.url else {"service": service}
        return without_none(caBundle=self.bundle) | address

    def _build_pod_webhooks(self, path: str, **fields: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - of a webhook
        """Return the webhooks for pods: of namespaces with the label, and of all others."""
        rules = [_build_rule("", "v1", "pods", "CREATE")]
        return [
            self._build_webhook(
                "pods-in-opted-in-namespaces",
                path,
                "Fail",
                rules=rules,
                namespaceSelector=self._build_selector("Exists"),
                matchConditions=[_NO_MIRROR],
                **fields,
            ),
            self._build_webhook(
                "pods",
                path,
                "Ignore",
                rules=rules,
                namespaceSelector=self._build_selector("DoesNotExist"),
                matchConditions=[_NO_MIRROR, _HAS_REQUEST],
                **fields,
            ),
        ]

    def _build_selector(self, operator: str) -> dict[str, Any]:
        excluded = sorted({self.endpoint.namespace, "kube-system"})
        names = {"key": _NAMESPACE_NAME, "operator": "NotIn", "values": excluded}
        return {"matchExpressions": [names, {"key": LABEL, "operator": operator}]}


def _build_rule(group: str, version: str, resource: str, *operations: str) -> dict[str, Any]:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": list(operations),
        "resources": [resource],
        "scope": "Namespaced" if resource == "pods" else "Cluster",
    }
