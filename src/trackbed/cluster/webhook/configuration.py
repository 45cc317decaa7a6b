"""The objects by which the API server calls us: MutatingWebhookConfiguration and ValidatingWebhookConfiguration.

    in namespaces that asked for rails (label trackbed.dev/rails)   every pod is sent; without an answer it is refused
    in all others                                                   pods that ask by annotation; without an answer they
                                                                    are let in as they are
    in our own namespace and kube-system                            nothing is ever sent

So with the webhook dead no other namespace is affected, and what the webhook itself needs in order to come back can
start. Fabrics and RailNodes are only sent where the fields change that we look at; those cannot be written meanwhile.
"""

from __future__ import annotations

from typing import Any

import msgspec

from trackbed.cluster.stacks.native.annotation import LABEL
from trackbed.cluster.stacks.objects import Manifest, manifest, without_none
from trackbed.cluster.webhook.asked import ASKING
from trackbed.cluster.webhook.pods import MIRROR

API = "admissionregistration.k8s.io/v1"
NAME = "trackbed"
NAMESPACE = "trackbed-system"
SERVICE = "trackbed-webhook"
INJECTED = "cert-manager.io/inject-ca-from"
"""Annotation by which cert-manager's CA injector is asked for an authority: namespace and name of a Certificate."""
TIMEOUT_SECONDS = 3
"""How long the API server waits: a review takes a millisecond, and pods of opted-in namespaces wait for it."""
PODS, PODS_LAST, NAMESPACES, FABRICS, RAILNODES = "/pods", "/pods/last", "/namespaces", "/fabrics", "/railnodes"

_HOME = "kubernetes.io/metadata.name"
_NO_MIRROR = {
    "name": "is-run-by-the-cluster",
    "expression": f"!('{MIRROR}' in object.metadata.?annotations.orValue({{}}))",
}
_ASKS = {
    "name": "asks-for-rails",
    "expression": f"object.metadata.?annotations.orValue({{}}).exists(name, name in {list(ASKING)})",
}
_STAYS = {"name": "is-not-being-deleted", "expression": "!has(object.metadata.deletionTimestamp)"}
_NEW_SLOT = {
    "name": "gets-a-slot",
    "expression": "oldObject == null || object.spec.fabric != oldObject.spec.fabric"
    " || object.spec.slot != oldObject.spec.slot",
}
"""All else in a RailNode is the controller's, which must be able to work while the webhook is dead."""
_NEW_SPEC = {"name": "says-something-new", "expression": "oldObject == null || object.spec != oldObject.spec"}


class Where(msgspec.Struct, frozen=True):
    """How the API server reaches us: a Service on port 443, or a URL where we run outside the cluster."""

    namespace: str = NAMESPACE
    """Our own, which is never reviewed."""
    service: str = SERVICE
    url: str | None = None
    """`https://HOST:PORT`, without a path."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which the API server knows our certificate."""
        return (f"{self.service}.{self.namespace}.svc", f"{self.service}.{self.namespace}.svc.cluster.local")


def configurations(where: Where, bundle: bytes | None) -> tuple[Manifest, Manifest]:
    """Both objects. `bundle` holds the authorities to trust as PEM.

    None leaves that field to cert-manager's CA injector, which is asked for the authority of the Certificate that is
    called as our Service is.
    """
    client = _Client(where, bundle)
    return _mutating(client), _validating(client)


class _Client(msgspec.Struct, frozen=True):
    where: Where
    bundle: bytes | None

    def webhook(self, name: str, path: str, failure: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - its fields
        return {
            "name": f"{name}.trackbed.dev",
            "admissionReviewVersions": ["v1"],
            "clientConfig": self._config(path),
            "failurePolicy": failure,
            "matchPolicy": "Equivalent",
            "sideEffects": "None",
            "timeoutSeconds": TIMEOUT_SECONDS,
            **more,
        }

    def _config(self, path: str) -> dict[str, Any]:
        where = self.where
        service = {"namespace": where.namespace, "name": where.service, "path": path, "port": 443}
        reached = {"url": f"{where.url}{path}"} if where.url else {"service": service}
        return without_none(caBundle=self.bundle) | reached

    def object(self, kind: str, webhooks: list[dict[str, Any]]) -> Manifest:
        """One of both configurations."""
        injected = {INJECTED: f"{self.where.namespace}/{self.where.service}"} if self.bundle is None else None
        return manifest(API, kind, NAME, annotations=injected, webhooks=webhooks)

    def pods(self, path: str, **more: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - fields of a webhook
        """The two for pods: of namespaces that asked, and of all others."""
        rules = [_rule("", "v1", "pods", "CREATE")]
        opted, others = self._selector("Exists"), self._selector("DoesNotExist")
        return [
            self.webhook(
                "pods-in-opted-in-namespaces",
                path,
                "Fail",
                rules=rules,
                namespaceSelector=opted,
                matchConditions=[_NO_MIRROR],
                **more,
            ),
            self.webhook(
                "pods",
                path,
                "Ignore",
                rules=rules,
                namespaceSelector=others,
                matchConditions=[_NO_MIRROR, _ASKS],
                **more,
            ),
        ]

    def _selector(self, labelled: str) -> dict[str, Any]:
        home = {"key": _HOME, "operator": "NotIn", "values": sorted({self.where.namespace, "kube-system"})}
        return {"matchExpressions": [home, {"key": LABEL, "operator": labelled}]}


def _mutating(client: _Client) -> Manifest:
    namespaces = client.webhook(
        "namespaces",
        NAMESPACES,
        "Ignore",
        rules=[_rule("", "v1", "namespaces", "CREATE", "UPDATE")],
        matchConditions=[_STAYS, _ASKS],
        reinvocationPolicy="IfNeeded",
    )
    webhooks = [*client.pods(PODS, reinvocationPolicy="IfNeeded"), namespaces]
    return client.object("MutatingWebhookConfiguration", webhooks)


def _validating(client: _Client) -> Manifest:
    own = [
        client.webhook(
            name,
            path,
            "Fail",
            rules=[_rule("trackbed.dev", "v1alpha1", name, "CREATE", "UPDATE")],
            matchConditions=[_STAYS, new],
        )
        for name, path, new in (("fabrics", FABRICS, _NEW_SPEC), ("railnodes", RAILNODES, _NEW_SLOT))
    ]
    return client.object("ValidatingWebhookConfiguration", [*client.pods(PODS_LAST), *own])


def _rule(group: str, version: str, resource: str, *operations: str) -> dict[str, Any]:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": list(operations),
        "resources": [resource],
        "scope": "Namespaced" if resource == "pods" else "Cluster",
    }
