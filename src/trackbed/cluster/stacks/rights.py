"""RBAC rules that an account needs to apply a stack, derived from the stack's objects and waits.

The rules also cover the ConfigMap that lists the stack's objects, and the pods and events that explain failures.
They are not limited to names of objects, as RBAC cannot limit `create` to names, and names depend on the Fabric.
"""

from collections.abc import Iterable

from trackbed.cluster.stacks.install.steps import ApplyFile, InstallChart, build_steps
from trackbed.cluster.stacks.objects import Manifest, build_manifest
from trackbed.cluster.stacks.stack import AnyWait, ResourceWait, Stack
from trackbed.fabric.plan.plan import Plan

_GroupResource = tuple[str, str]
"""API group and plural of a kind, as in RBAC rules."""

_WRITE_VERBS = ("get", "list", "create", "patch", "delete")
_NEVER_DELETED = frozenset({("", "namespaces"), ("apiextensions.k8s.io", "customresourcedefinitions")})
"""API groups and plurals of kinds whose objects are never deleted."""
_PLURALS = {
    "DeviceAttributes": "deviceattributes",
    "NetworkAttachmentDefinition": "network-attachment-definitions",
    "SecurityContextConstraints": "securitycontextconstraints",
}
_GROUPS = {
    "customresourcedefinitions": "apiextensions.k8s.io",
    "daemonsets": "apps",
    "deployments": "apps",
    "nodes": "",
    "sriovnetworknodestates": "sriovnetwork.openshift.io",
}
"""Plural -> API group, for kinds that waits name without a group and that the stack itself does not write."""


def build_cluster_role_rules(stack: Stack, plan: Plan) -> list[Manifest]:
    """Return the rules of a ClusterRole that may apply the stack; kinds with the same verbs and group share a rule."""
    all_steps = build_steps(stack, plan)
    written_kinds = {
        _read_group_resource(manifest) for step in all_steps if isinstance(step, ApplyFile) for manifest in step.objects
    }
    written_kinds.add(("", "configmaps"))
    waits = [wait for step in all_steps if not isinstance(step, InstallChart) for wait in step.waits]
    read_kinds = {_find_awaited_resource(wait, written_kinds) for wait in waits} | {
        ("", "pods"),
        ("", "events"),
        ("", "nodes"),
    }
    permanent = written_kinds & _NEVER_DELETED
    verbs = (
        (_WRITE_VERBS, written_kinds - permanent),
        (_WRITE_VERBS[:-1], permanent),
        (("get", "list"), read_kinds - written_kinds),
    )
    return [
        _build_rule(group, kinds, allowed)
        for allowed, kinds in verbs
        for group in sorted({group for group, _ in kinds})
    ]


def build_cluster_role(stack: Stack, plan: Plan, service_account: str) -> tuple[Manifest, Manifest]:
    """Return the ClusterRole of a stack and its binding to a service account, which is given as NAMESPACE:NAME."""
    name, api = f"trackbed-stack-{stack.name}", "rbac.authorization.k8s.io"
    namespace, _, account_name = service_account.partition(":")
    subject = {"kind": "ServiceAccount", "name": account_name, "namespace": namespace}
    role_reference = {"apiGroup": api, "kind": "ClusterRole", "name": name}
    return (
        build_manifest(f"{api}/v1", "ClusterRole", name, rules=build_cluster_role_rules(stack, plan)),
        build_manifest(f"{api}/v1", "ClusterRoleBinding", name, roleRef=role_reference, subjects=[subject]),
    )


def to_plural(kind: str) -> str:
    """Return the lower-case plural of a kind, as in API paths."""
    if kind in _PLURALS:
        return _PLURALS[kind]
    lowered = kind.lower()
    if lowered.endswith("y"):
        return f"{lowered[:-1]}ies"
    return f"{lowered}es" if lowered.endswith("s") else f"{lowered}s"


def _build_rule(api_group: str, kinds: Iterable[_GroupResource], verbs: tuple[str, ...]) -> Manifest:
    return {
        "apiGroups": [api_group],
        "resources": sorted(name for kind_group, name in kinds if kind_group == api_group),
        "verbs": list(verbs),
    }


def _read_group_resource(manifest: Manifest) -> _GroupResource:
    return manifest["apiVersion"].rpartition("/")[0], to_plural(manifest["kind"])


def _find_awaited_resource(wait: AnyWait, written_kinds: Iterable[_GroupResource]) -> _GroupResource:
    """Return API group and plural of the kind that a wait reads.

    The resource of a wait begins with KIND/NAME or PLURAL, either optionally with .GROUP after the kind.
    """
    if isinstance(wait, ResourceWait):
        return "", "nodes"
    kind, _, group = wait.resource.split()[0].partition("/")[0].partition(".")
    plural = kind if kind.endswith("s") else to_plural(kind)
    return next((kind for kind in written_kinds if kind[1] == plural), (group or _GROUPS.get(plural, ""), plural))
