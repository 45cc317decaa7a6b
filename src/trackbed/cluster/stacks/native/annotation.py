"""Admission policies that convert the annotation trackbed.dev/rails of a pod to resources of its container.

    trackbed-rails              adds rails to a pod with the annotation; refuses the pod if the annotation is invalid
    trackbed-rails-default      copies a namespace's annotation to a pod that has none, and adds the rails
    trackbed-rails-namespace    adds a label of the same name to a namespace with the annotation

Policies can select namespaces only by label, so the label limits the second policy to namespaces with a default. The
API server calls policies in no fixed order, and does not call a policy again after another policy or a webhook made it
match. Each policy therefore makes all its changes in one call, and a pod that gets the annotation too late is refused
rather than started without rails.

Pods that already request a rail are left alone. So are pods whose own or whose namespace's trackbed.dev/fabric names
another Fabric; the webhook adds the rails of that Fabric. Policies run inside the API server, so pods are admitted even
if no program of Trackbed runs (KEP-3962; validation KEP-3488).
"""

from collections.abc import Iterator, Sequence
from typing import Any

from trackbed.cluster.stacks.groups import FABRIC_LABEL
from trackbed.cluster.stacks.native.choice import (
    ANNOTATION,
    ANNOTATION_VALUE,
    HAS_ANNOTATION,
    NO_RAILS,
    REQUESTED_RAILS,
    render_all_rails,
    render_error_message,
    render_validity_test,
)
from trackbed.cluster.stacks.objects import Manifest, build_manifest, drop_none
from trackbed.cluster.stacks.rails import DEFAULT_PREFIX
from trackbed.fabric.gpus import GPU_PATTERN
from trackbed.fabric.plan.plan import Plan

API = "admissionregistration.k8s.io/v1"
POLICY_NAME = "trackbed-rails"
DEFAULT_POLICY_NAME = f"{POLICY_NAME}-default"
NAMESPACE_POLICY_NAME = f"{POLICY_NAME}-namespace"
LABEL = ANNOTATION
LABEL_VALUE = "default"
"""Value of the label of namespaces whose annotation is the default for their pods."""
RESOURCE_PREFIX = f"{DEFAULT_PREFIX}/rail"
"""Prefix of the resource names of rails, before the rail's number."""

_CelExpressions = dict[str, str]
"""Name -> CEL expression: match conditions, which must all hold, or variables in order of evaluation."""

_PODS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
_NAMESPACES = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["namespaces"],
}

_ASKS_FOR_RAILS = f"""\
(dyn(object).spec.containers + dyn(object).?spec.initContainers.orValue([])).exists(one,
  one.?resources.limits.orValue({{}}).exists(name, name.startsWith('{RESOURCE_PREFIX}'))
  || one.?resources.requests.orValue({{}}).exists(name, name.startsWith('{RESOURCE_PREFIX}')))
"""
_USES_HOST_NETWORK = "dyn(object).?spec.hostNetwork.orValue(false)"
_IS_NOT_MIRROR_POD: _CelExpressions = {
    "is-run-by-the-cluster": "!('kubernetes.io/config.mirror' in object.metadata.?annotations.orValue({}))"
}
"""Condition that excludes mirror pods, as the kubelet runs static pods whatever the API server changes or refuses."""
_CAN_GET_RAILS: _CelExpressions = {
    "asks-for-no-rail-itself": f"!{_ASKS_FOR_RAILS}",
    "has-a-network-of-its-own": f"!{_USES_HOST_NETWORK}",
    **_IS_NOT_MIRROR_POD,
}
"""Match conditions for pods that can get rails."""

_CONTAINER = f"""\
(object.spec.containers.filter(one,
  one.?resources.limits.orValue({{}}).exists(name, name.matches('{GPU_PATTERN}'))) + object.spec.containers)[0].name
"""
_RESOURCES = f"""\
variables.rails.transformMapEntry(at, rail, {{'{RESOURCE_PREFIX}' + string(rail): '1'}})
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
_ADD_RESOURCES = f"""\
!variables.ours ? Object{{}} : Object{{
  {_SPEC}
}}
"""
_ANNOTATE_AND_ADD_RESOURCES = f"""\
!variables.ours ? Object{{}} : Object{{
  metadata: Object.metadata{{
    annotations: {{'{ANNOTATION}': variables.asked}}
  }},
  {_SPEC}
}}
"""
_ADD_LABEL = f"""\
Object{{
  metadata: Object.metadata{{
    labels: {{'{LABEL}': '{LABEL_VALUE}'}}
  }}
}}
"""
_IS_NEW = f"""\
oldObject == null || !('{ANNOTATION}' in oldObject.metadata.?annotations.orValue({{}}))
|| oldObject.metadata.annotations['{ANNOTATION}'] != {ANNOTATION_VALUE}
"""
_WANTS_NO_RAILS = f"!variables.sound || variables.asked == '{NO_RAILS}'"
_HOST_NETWORK_MESSAGE = f"annotation {ANNOTATION} asks for rails, and a pod with hostNetwork: true cannot get any"
_TOO_LATE_MESSAGE = (
    f"annotation {ANNOTATION} asks for rails and none were given: it was set by a webhook, which comes too late, or "
    f"MutatingAdmissionPolicy {POLICY_NAME} or its binding is missing"
)
_FROM_NAMESPACE = f"namespaceObject.metadata.?annotations['{ANNOTATION}'].orValue('{NO_RAILS}')"


def build_policies(plan: Plan) -> Iterator[Manifest]:
    """Yield the policies, each with its binding. The validating policy is first, so no pod is mutated unvalidated."""
    yield _build_validating_policy(plan)
    yield _build_policy_binding("ValidatingAdmissionPolicyBinding", POLICY_NAME, validationActions=["Deny"])
    yield _build_mutating_policy(
        POLICY_NAME,
        _PODS,
        {"has-the-annotation": HAS_ANNOTATION, **_build_fabric_condition(plan), **_CAN_GET_RAILS},
        _build_rail_variables(plan, ANNOTATION_VALUE),
        _ADD_RESOURCES,
    )
    yield _build_policy_binding("MutatingAdmissionPolicyBinding", POLICY_NAME)
    conditions = {"has-no-annotation": f"!({HAS_ANNOTATION})", **_build_fabric_condition(plan), **_CAN_GET_RAILS}
    yield _build_mutating_policy(
        DEFAULT_POLICY_NAME,
        _PODS,
        conditions,
        _build_rail_variables(plan, _FROM_NAMESPACE),
        _ANNOTATE_AND_ADD_RESOURCES,
    )
    namespaces = {"namespaceSelector": {"matchLabels": {LABEL: LABEL_VALUE}}}
    yield _build_policy_binding("MutatingAdmissionPolicyBinding", DEFAULT_POLICY_NAME, matchResources=namespaces)
    yield _build_mutating_policy(
        NAMESPACE_POLICY_NAME, _NAMESPACES, {"has-the-annotation": HAS_ANNOTATION}, {}, _ADD_LABEL
    )
    yield _build_policy_binding("MutatingAdmissionPolicyBinding", NAMESPACE_POLICY_NAME)


def _build_rail_variables(plan: Plan, annotation_value: str) -> _CelExpressions:
    """Return the variables that the mutations use; `annotation_value` is a CEL expression."""
    return {
        "ours": _render_fabric_test(plan),
        "all": render_all_rails(plan),
        "asked": annotation_value,
        "sound": render_validity_test(plan),
        "rails": REQUESTED_RAILS,
        "container": _CONTAINER,
        "resources": _RESOURCES,
    }


def _build_fabric_condition(plan: Plan) -> _CelExpressions:
    """Return the match condition that an object's own annotation names no other fabric."""
    fabric = plan.common.fabric
    fabric_name = f"object.metadata.?annotations['{FABRIC_LABEL}'].orValue('{fabric}')"
    return {"names-no-other-fabric": f"{fabric_name} == '{fabric}'"}


def _render_fabric_test(plan: Plan) -> str:
    """Return a CEL test of whether a pod belongs to this fabric, by its own annotation or else its namespace's."""
    fabric = plan.common.fabric
    namespace_fabric = f"namespaceObject.metadata.?annotations['{FABRIC_LABEL}'].orValue('{fabric}')"
    return f"'{FABRIC_LABEL}' in object.metadata.?annotations.orValue({{}}) || {namespace_fabric} == '{fabric}'"


def _build_validating_policy(plan: Plan) -> Manifest:
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": _build_match_constraints(_PODS, _NAMESPACES),
        "matchConditions": _list_named_expressions(
            {
                "has-the-annotation": HAS_ANNOTATION,
                **_build_fabric_condition(plan),
                "is-new": _IS_NEW,
                **_IS_NOT_MIRROR_POD,
            }
        ),
        "variables": _list_named_expressions({"asked": ANNOTATION_VALUE, "sound": render_validity_test(plan)}),
        "validations": [
            {"expression": "variables.sound", "messageExpression": render_error_message(plan)},
            {"expression": f"{_WANTS_NO_RAILS} || !{_USES_HOST_NETWORK}", "message": _HOST_NETWORK_MESSAGE},
            {
                "expression": f"{_WANTS_NO_RAILS} || request.kind.kind != 'Pod' || {_ASKS_FOR_RAILS}",
                "message": _TOO_LATE_MESSAGE,
            },
        ],
    }
    return build_manifest(API, "ValidatingAdmissionPolicy", POLICY_NAME, spec=spec)


def _build_mutating_policy(
    name: str,
    resource_rule: dict[str, Any],
    conditions: _CelExpressions,
    variables: _CelExpressions,
    apply_expression: str,
) -> Manifest:
    """Return a MutatingAdmissionPolicy. It needs no reinvocation, as pods that request rails no longer match it."""
    spec = drop_none(
        failurePolicy="Fail",
        reinvocationPolicy="Never",
        matchConstraints=_build_match_constraints(resource_rule),
        matchConditions=_list_named_expressions(conditions),
        variables=_list_named_expressions(variables) or None,
        mutations=[{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": apply_expression}}],
    )
    return build_manifest(API, "MutatingAdmissionPolicy", name, spec=spec)


def _build_match_constraints(*resource_rules: dict[str, Any]) -> dict[str, Any]:
    return {"resourceRules": list(resource_rules)}


def _list_named_expressions(expressions: _CelExpressions) -> Sequence[dict[str, str]]:
    return [{"name": name, "expression": expression} for name, expression in expressions.items()]


def _build_policy_binding(kind: str, name: str, **spec: Any) -> Manifest:  # noqa: ANN401 - the two kinds of binding differ
    return build_manifest(API, kind, name, spec={"policyName": name, **spec})
