"""What an account must be allowed so that it may apply a stack: rules of RBAC, from the stack's own objects and gates.

Beside them: the ConfigMap that says which objects are the stack's, and what tells why pods are not there. Kinds alone
are named, not objects: `create` cannot be kept to names, and names follow from the Fabric.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trackbed.cluster.stacks.install.steps import Apply, Install, Step, steps
from trackbed.cluster.stacks.objects import Manifest, manifest
from trackbed.cluster.stacks.stack import Offered, Stack, Until
from trackbed.fabric.plan.plan import Plan

_Kind = tuple[str, str]
"""API group, plural."""

_WRITES = ("get", "list", "create", "patch", "delete")
_KEPT = frozenset({("", "namespaces"), ("apiextensions.k8s.io", "customresourcedefinitions")})
"""Never deleted."""
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
"""Groups of kinds that are waited for by their name alone, and that the stack does not write itself."""


def rights(stack: Stack, plan: Plan) -> list[Manifest]:
    """Rules of a ClusterRole, those of one verb list and group in one."""
    all_steps = steps(stack, plan)
    written = {_kind(one) for step in all_steps if isinstance(step, Apply) for one in step.objects}
    written.add(("", "configmaps"))
    read = {_waited(until, written) for until in _untils(all_steps)} | {("", "pods"), ("", "events"), ("", "nodes")}
    kept = written & _KEPT
    verbs = ((_WRITES, written - kept), (_WRITES[:-1], kept), (("get", "list"), read - written))
    return [_rule(group, kinds, allowed) for allowed, kinds in verbs for group in sorted({group for group, _ in kinds})]


def role(stack: Stack, plan: Plan, account: str) -> tuple[Manifest, Manifest]:
    """The ClusterRole, and its binding to a service account, NAMESPACE:NAME."""
    name, api = f"trackbed-stack-{stack.name}", "rbac.authorization.k8s.io"
    namespace, _, own = account.partition(":")
    subject = {"kind": "ServiceAccount", "name": own, "namespace": namespace}
    of = {"apiGroup": api, "kind": "ClusterRole", "name": name}
    return (
        manifest(f"{api}/v1", "ClusterRole", name, rules=rights(stack, plan)),
        manifest(f"{api}/v1", "ClusterRoleBinding", name, roleRef=of, subjects=[subject]),
    )


def plural(kind: str) -> str:
    """A kind as the API's paths have it."""
    if kind in _PLURALS:
        return _PLURALS[kind]
    word = kind.lower()
    if word.endswith("y"):
        return f"{word[:-1]}ies"
    return f"{word}es" if word.endswith("s") else f"{word}s"


def _rule(group: str, kinds: Iterable[_Kind], verbs: tuple[str, ...]) -> Manifest:
    return {
        "apiGroups": [group],
        "resources": sorted(name for own, name in kinds if own == group),
        "verbs": list(verbs),
    }


def _kind(one: Manifest) -> _Kind:
    return one["apiVersion"].rpartition("/")[0], plural(one["kind"])


def _untils(all_steps: Iterable[Step]) -> Iterator[Until]:
    return (until for step in all_steps if not isinstance(step, Install) for until in step.until)


def _waited(until: Until, written: Iterable[_Kind]) -> _Kind:
    """The kind that a gate looks at: KIND/NAME, PLURAL, each perhaps with .GROUP."""
    if isinstance(until, Offered):
        return "", "nodes"
    word, _, group = until.resource.split()[0].partition("/")[0].partition(".")
    named = word if word.endswith("s") else plural(word)
    return next((kind for kind in written if kind[1] == named), (group or _GROUPS.get(named, ""), named))
