"""The objects that register the webhook: MutatingWebhookConfiguration and ValidatingWebhookConfiguration.

    namespaces with label trackbed.dev/rails    every pod is reviewed; without a response it is refused
    all other namespaces                        pods with a request annotation are reviewed; without a response they
                                                are admitted unchanged
    our own namespace and kube-system           nothing is reviewed

So an outage of the webhook affects only labelled namespaces, and never prevents the webhook from starting again.
Fabrics and RailNodes are reviewed if relevant fields change; during an outage such changes are refused.
"""

from typing import Any

import msgspec

from trackbed.cluster.stacks.native.annotation import LABEL
from trackbed.cluster.stacks.objects import Manifest, build_manifest, drop_none
from trackbed.cluster.webhook.pods import MIRROR
from trackbed.cluster.webhook.rail_requests import REQUEST_ANNOTATIONS

API = "admissionregistration.k8s.io/v1"
NAME = "trackbed"
NAMESPACE = "trackbed-system"
SERVICE = "trackbed-webhook"
INJECT_ANNOTATION = "cert-manager.io/inject-ca-from"
"""Annotation that makes cert-manager's CA injector set the CA bundle: namespace and name of a Certificate."""
TIMEOUT_SECONDS = 3
"""Time that the API server waits for a review, which takes a millisecond unless the object is large; pods of labelled
namespaces wait too.
"""
FABRIC_TIMEOUT_SECONDS = 30
"""Time that the API server waits for a review of a Fabric, the longest that it may: reviews of other clients go first,
each for up to fabric_process.FABRIC_SECONDS. Nothing else waits for it.
"""
PODS, PODS_LAST, NAMESPACES, FABRICS, RAILNODES = "/pods", "/pods/last", "/namespaces", "/fabrics", "/railnodes"
"""URL paths of the reviews; the API server calls /pods/last after all mutating webhooks."""

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
"""Match condition that skips other changes of a RailNode, so that the controller works without the webhook."""
_NEW_SPEC = {"name": "says-something-new", "expression": "oldObject == null || object.spec != oldObject.spec"}


class WebhookEndpoint(msgspec.Struct, frozen=True):
    """How the API server reaches the webhook: a Service on port 443, or a URL outside the cluster."""

    namespace: str = NAMESPACE
    """Namespace of the webhook, which is never reviewed."""
    service: str = SERVICE
    url: str | None = None
    """URL of the webhook without a path: https://HOST:PORT. None if a Service is used."""

    @property
    def names(self) -> tuple[str, ...]:
        """The DNS names for which the API server requires a certificate."""
        return (f"{self.service}.{self.namespace}.svc", f"{self.service}.{self.namespace}.svc.cluster.local")


def build_configurations(endpoint: WebhookEndpoint, bundle: bytes | None) -> tuple[Manifest, Manifest]:
    """Return the mutating and the validating configuration. `bundle` is the CA bundle as PEM.

    If it is None, cert-manager's CA injector sets the authority of the Certificate with the Service's name.
    """
    builder = _ConfigurationBuilder(endpoint, bundle)
    return builder.build_mutating(), builder.build_validating()


class _ConfigurationBuilder(msgspec.Struct, frozen=True):
    """Builds the webhook configurations for one endpoint and CA bundle."""

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
                timeoutSeconds=timeout_seconds,
            )
            for name, path, condition, timeout_seconds in (
                ("fabrics", FABRICS, _NEW_SPEC, FABRIC_TIMEOUT_SECONDS),
                ("railnodes", RAILNODES, _NEW_SLOT, TIMEOUT_SECONDS),
            )
        ]
        webhooks = [*self._build_pod_webhooks(PODS_LAST), *resources]
        return self._build_configuration("ValidatingWebhookConfiguration", webhooks)

    def _build_configuration(self, kind: str, webhooks: list[dict[str, Any]]) -> Manifest:
        certificate = f"{self.endpoint.namespace}/{self.endpoint.service}"
        annotations = {INJECT_ANNOTATION: certificate} if self.bundle is None else None
        return build_manifest(API, kind, NAME, annotations=annotations, webhooks=webhooks)

    def _build_webhook(self, name: str, path: str, failure_policy: str, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        return {
            "name": f"{name}.trackbed.dev",
            "admissionReviewVersions": ["v1"],
            "clientConfig": self._build_client_config(path),
            "failurePolicy": failure_policy,
            "matchPolicy": "Equivalent",
            "sideEffects": "None",
            "timeoutSeconds": TIMEOUT_SECONDS,
            **fields,
        }

    def _build_client_config(self, path: str) -> dict[str, Any]:
        endpoint = self.endpoint
        service = {"namespace": endpoint.namespace, "name": endpoint.service, "path": path, "port": 443}
        address = {"url": f"{endpoint.url}{path}"} if endpoint.url else {"service": service}
        return drop_none(caBundle=self.bundle) | address

    def _build_pod_webhooks(self, path: str, **fields: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - JSON
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
