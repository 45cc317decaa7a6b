"""Admission policies: the annotation trackbed.dev/rails on a pod becomes resources of its container.

    trackbed-rails              a pod with the annotation asks for these rails; refused if the annotation is wrong
    trackbed-rails-default      a pod without it, in a namespace that has it, gets it and what it means
    trackbed-rails-namespace    such a namespace gets a label of the same name

Policies select by label only, so it takes that label for the second one to leave all other namespaces' pods alone. Each
policy does the whole of its work at once: the API server calls policies in no order, and calls none again because
another one, or a webhook, made it match; a pod that got its annotation so late is refused rather than run without
rails. What asks for a rail already is left alone, and so is what names another Fabric, by trackbed.dev/fabric on pod or
namespace: the webhook gives it that one's rails. In-process, no webhook: nothing of ours must run for pods to be
admitted (KEP-3962; validation KEP-3488).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from trackbed.cluster.stacks.groups import FABRIC_LABEL
from trackbed.cluster.stacks.native.choice import ANNOTATION, HAS, NONE, OWN, RAILS, complaint, is_sound, numbers
from trackbed.cluster.stacks.objects import Manifest, manifest, without_none
from trackbed.cluster.stacks.rails import OWN_PREFIX
from trackbed.fabric.plan.plan import Plan

API = "admissionregistration.k8s.io/v1"
NAME = "trackbed-rails"
DEFAULT = f"{NAME}-default"
NAMESPACE = f"{NAME}-namespace"
LABEL = ANNOTATION
LABELLED = "default"
"""The label of a namespace with a default, and its value."""
RESOURCE = f"{OWN_PREFIX}/rail"
"""What rails' resources begin with."""
GPUS = ("nvidia.com/gpu", "amd.com/gpu")

_Conditions = dict[str, str]
"""Name -> expression: conditions that must all hold, or variables in order."""

_PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
_NAMESPACES = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["namespaces"],
}

_ASKS = f"""\
(dyn(object).spec.containers + dyn(object).?spec.initContainers.orValue([])).exists(one,
  one.?resources.limits.orValue({{}}).exists(name, name.startsWith('{RESOURCE}'))
  || one.?resources.requests.orValue({{}}).exists(name, name.startsWith('{RESOURCE}')))
"""
_CANNOT_HAVE = "dyn(object).?spec.hostNetwork.orValue(false)"
_NO_MIRROR: _Conditions = {
    "is-run-by-the-cluster": "!('kubernetes.io/config.mirror' in object.metadata.?annotations.orValue({}))"
}
"""The kubelet alone runs what it mirrors: changing or refusing a mirror changes nothing there."""
_FREE: _Conditions = {
    "asks-for-no-rail-itself": f"!{_ASKS}",
    "has-a-network-of-its-own": f"!{_CANNOT_HAVE}",
    **_NO_MIRROR,
}
"""Pods that can be given rails."""

_CONTAINER = f"""\
(object.spec.containers.filter(one,
  one.?resources.limits.orValue({{}}).exists(name, name in {list(GPUS)})) + object.spec.containers)[0].name
"""
_RESOURCES = f"""\
variables.rails.transformMapEntry(at, rail, {{'{RESOURCE}' + string(rail): '1'}})
"""
_SPEC = """\
spec: Object.spec{
    containers: [Object.spec.containers{
      name: variables.container,
      resources: Object.spec.containers.resources{
        requests: variables.resources,
        limits: variables.resources
      }
    }]
  }"""
_ASK = f"""\
!variables.ours ? Object{{}} : Object{{
  {_SPEC}
}}
"""
_ANNOTATE_AND_ASK = f"""\
!variables.ours ? Object{{}} : Object{{
  metadata: Object.metadata{{
    annotations: {{'{ANNOTATION}': variables.asked}}
  }},
  {_SPEC}
}}
"""
_PUT_LABEL = f"""\
Object{{
  metadata: Object.metadata{{
    labels: {{'{LABEL}': '{LABELLED}'}}
  }}
}}
"""
_IS_NEW = f"""\
oldObject == null || !('{ANNOTATION}' in oldObject.metadata.?annotations.orValue({{}}))
|| oldObject.metadata.annotations['{ANNOTATION}'] != {OWN}
"""
_NOTHING_ASKED = f"!variables.sound || variables.asked == '{NONE}'"
_IN_HOSTS_NETWORK = f"annotation {ANNOTATION} asks for rails, and a pod with hostNetwork: true cannot get any"
_TOO_LATE = (
    f"annotation {ANNOTATION} asks for rails and none were given: it was set by a webhook, which comes too late, or "
    f"MutatingAdmissionPolicy {NAME} or its binding is missing"
)
_FROM_NAMESPACE = f"namespaceObject.metadata.?annotations['{ANNOTATION}'].orValue('{NONE}')"


def policies(plan: Plan) -> Iterator[Manifest]:
    """All policies, each with its binding. Validation comes first, so no moment has the one without the other."""
    yield _validating(plan)
    yield _binding("ValidatingAdmissionPolicyBinding", NAME, validationActions=["Deny"])
    yield _mutating(
        NAME, _PODS, {"has-the-annotation": HAS, **_names_no_other(plan), **_FREE}, _asking(plan, OWN), _ASK
    )
    yield _binding("MutatingAdmissionPolicyBinding", NAME)
    lacks = {"has-no-annotation": f"!({HAS})", **_names_no_other(plan), **_FREE}
    yield _mutating(DEFAULT, _PODS, lacks, _asking(plan, _FROM_NAMESPACE), _ANNOTATE_AND_ASK)
    labelled = {"namespaceSelector": {"matchLabels": {LABEL: LABELLED}}}
    yield _binding("MutatingAdmissionPolicyBinding", DEFAULT, matchResources=labelled)
    yield _mutating(NAMESPACE, _NAMESPACES, {"has-the-annotation": HAS}, {}, _PUT_LABEL)
    yield _binding("MutatingAdmissionPolicyBinding", NAMESPACE)


def _asking(plan: Plan, asked: str) -> _Conditions:
    return {
        "ours": _is_ours(plan),
        "all": numbers(plan),
        "asked": asked,
        "sound": is_sound(plan),
        "rails": RAILS,
        "container": _CONTAINER,
        "resources": _RESOURCES,
    }


def _names_no_other(plan: Plan) -> _Conditions:
    fabric = plan.common.fabric
    named = f"object.metadata.?annotations['{FABRIC_LABEL}'].orValue('{fabric}')"
    return {"names-no-other-fabric": f"{named} == '{fabric}'"}


def _is_ours(plan: Plan) -> str:
    """Whether a pod that names no other Fabric is one of this one: its own word comes before its namespace's."""
    fabric = plan.common.fabric
    named = f"namespaceObject.metadata.?annotations['{FABRIC_LABEL}'].orValue('{fabric}')"
    return f"'{FABRIC_LABEL}' in object.metadata.?annotations.orValue({{}}) || {named} == '{fabric}'"


def _validating(plan: Plan) -> Manifest:
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": _matched(_PODS, _NAMESPACES),
        "matchConditions": _expressions(
            {"has-the-annotation": HAS, **_names_no_other(plan), "is-new": _IS_NEW, **_NO_MIRROR}
        ),
        "variables": _expressions({"asked": OWN, "sound": is_sound(plan)}),
        "validations": [
            {"expression": "variables.sound", "messageExpression": complaint(plan)},
            {"expression": f"{_NOTHING_ASKED} || !{_CANNOT_HAVE}", "message": _IN_HOSTS_NETWORK},
            {"expression": f"{_NOTHING_ASKED} || request.kind.kind != 'Pod' || {_ASKS}", "message": _TOO_LATE},
        ],
    }
    return manifest(API, "ValidatingAdmissionPolicy", NAME, spec=spec)


def _mutating(
    name: str, matched: dict[str, Any], conditions: _Conditions, variables: _Conditions, mutation: str
) -> Manifest:
    """Calling it again changes nothing, so it is called once: what asks for a rail matches no more."""
    spec = without_none(
        failurePolicy="Fail",
        reinvocationPolicy="Never",
        matchConstraints=_matched(matched),
        matchConditions=_expressions(conditions),
        variables=_expressions(variables) or None,
        mutations=[{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": mutation}}],
    )
    return manifest(API, "MutatingAdmissionPolicy", name, spec=spec)


def _matched(*rules: dict[str, Any]) -> dict[str, Any]:
    return {"resourceRules": list(rules)}


def _expressions(named: _Conditions) -> Sequence[dict[str, str]]:
    return [{"name": name, "expression": expression} for name, expression in named.items()]


def _binding(kind: str, name: str, **spec: Any) -> Manifest:  # noqa: ANN401 - the two kinds of binding differ
    return manifest(API, kind, name, spec={"policyName": name, **spec})
