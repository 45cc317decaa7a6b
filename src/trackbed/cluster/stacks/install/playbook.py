"""`playbook.yaml`: the installation steps for Ansible (collection kubernetes.core), run where kubectl works."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import yaml

from trackbed.cluster.stacks.install.script import get_variable_name, render_allocatable_columns, to_kubectl_arguments
from trackbed.cluster.stacks.install.steps import ApplyFile, InstallChart, Step, WaitForLabel
from trackbed.cluster.stacks.stack import ROLLED_OUT, AnyWait, Wait
from trackbed.fabric.plan.plan import Plan

Task = dict[str, Any]
_API_VERSIONS = {"deployment": ("apps/v1", "Deployment")}
"""Kind -> API version and kind, for kinds whose conditions kubernetes.core can wait for; others need `kubectl wait`."""
_ATTEMPT_SECONDS = 30
"""Timeout of each `kubectl wait`, and delay between attempts, as it fails at once if the object does not exist."""


def render_playbook(stack_name: str, plan: Plan, steps: Sequence[Step]) -> Iterator[str]:
    """Yield the pieces of the playbook's text."""
    tasks = [
        task
        for step in steps
        for task in (*_build_step_tasks(step, stack_name), *chain.from_iterable(map(_build_wait_tasks, step.waits)))
    ]
    play = {
        "name": f"Stack {stack_name} for fabric {plan.common.fabric}",
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "tasks": tasks,
    }
    yield "# Needs the collection kubernetes.core, helm and kubectl. Where install.sh asks for a variable, this asks\n"
    yield "# for the same in lower case: ansible-playbook playbook.yaml -e cilium_version=...\n"
    yield yaml.safe_dump([play], sort_keys=False, width=120)


def _build_step_tasks(step: Step, stack_name: str) -> Iterator[Task]:
    if isinstance(step, InstallChart):
        yield {"name": f"Install chart {step.release_name}", "kubernetes.core.helm": _build_helm_arguments(step)}
    elif isinstance(step, WaitForLabel):
        yield from _build_label_tasks(step)
    elif step.file:
        yield from _build_apply_tasks(step, stack_name)


def _build_apply_tasks(step: ApplyFile, stack_name: str) -> Iterator[Task]:
    manager = {"field_manager": f"trackbed-{stack_name}"} | ({"force_conflicts": True} if step.force else {})
    arguments = {"src": _render_playbook_path(step.file), "apply": True, "server_side_apply": manager}
    task = {"name": f"Apply {step.title}", "kubernetes.core.k8s": {"state": "present", **arguments}}
    if step.yields_to is None:
        yield task
        return
    foreign = step.yields_to
    names = f"present.stdout_lines | reject('search', '/{foreign.name}$') | list"
    kinds = ",".join(foreign.group_kinds)
    yield {
        "name": f"Look for another installation in namespace {foreign.namespace}",
        "ansible.builtin.command": {
            "argv": ["kubectl", "get", kinds, "--namespace", foreign.namespace, "-o", "name"],
        },
        "changed_when": False,
        "register": "present",
    }
    yield {
        "name": f"Say whether {step.title} is left out",
        "ansible.builtin.debug": {
            "msg": f"leaving out {step.title}, as namespace {foreign.namespace} has {{{{ {names} | join(', ') }}}}",
        },
        "when": f"{names} | length > 0",
    }
    yield task | {"when": f"{names} | length == 0"}


def _build_helm_arguments(step: InstallChart) -> dict[str, Any]:
    repository = step.source.repository
    arguments: dict[str, Any] = {
        "release_name": step.release_name,
        "release_namespace": step.chart.namespace,
        "create_namespace": True,
        "chart_ref": step.chart_reference if repository else _render_jinja_variable(get_variable_name(step, "CHART")),
        "values_files": [_render_playbook_path(step.values_file)],
    }
    if repository:
        arguments["chart_version"] = step.version or _render_jinja_variable(get_variable_name(step, "VERSION"))
        arguments |= {} if repository.startswith("oci:") else {"chart_repo_url": repository}
    if step.release_name == "cilium":
        arguments["release_values"] = {"devices": "{{ cilium_devices.split(',') }}"}
    return arguments


def _build_label_tasks(step: WaitForLabel) -> Iterator[Task]:
    """Yield tasks that wait for the label on all nodes and, after the timeout, fail only if no node has it."""
    yield {
        "name": f"Wait for {step.node_count} nodes with label {step.label}",
        "kubernetes.core.k8s_info": {"kind": "Node", "label_selectors": [step.label]},
        "register": "labelled",
        "until": f"labelled.resources | length >= {step.node_count}",
        "retries": step.timeout_seconds // 5,
        "delay": 5,
        "ignore_errors": True,
    }
    yield {
        "name": "See that some nodes have the label",
        "ansible.builtin.assert": {
            "that": "labelled.resources | length > 0",
            "fail_msg": f"no node has label {step.label}: compare node and port names with those in *-nfd.yaml",
        },
    }


def _build_wait_tasks(wait: AnyWait) -> Iterator[Task]:
    if isinstance(wait, Wait):
        yield _build_wait_task(wait)
    else:
        yield from (
            _build_resource_task(names, nodes, wait.timeout_seconds) for names, nodes in wait.required_counts.items()
        )


def _build_resource_task(resource_names: Sequence[str], node_count: int, timeout_seconds: int) -> Task:
    """Return a task that waits until enough nodes offer the resources; each attempt is one request for all nodes."""
    offering = "offering.stdout_lines | reject('search', '(^| )(0|<none>)( |$)') | list | length"
    return {
        "name": f"Wait for {node_count} nodes that offer {', '.join(resource_names)}",
        "ansible.builtin.command": {
            "argv": ["kubectl", "get", "nodes", "--no-headers", "-o", render_allocatable_columns(resource_names)]
        },
        "changed_when": False,
        "register": "offering",
        "until": f"offering.rc == 0 and {offering} >= {node_count}",
        "retries": max(1, timeout_seconds // _ATTEMPT_SECONDS),
        "delay": _ATTEMPT_SECONDS,
    }


def _build_wait_task(wait: Wait) -> Task:
    name = f"Wait for {wait.resource}"
    kind, _, resource_name = wait.resource.partition("/")
    if kind in _API_VERSIONS and wait.condition.startswith("condition="):
        api_version, kind = _API_VERSIONS[kind]
        target = {
            "api_version": api_version,
            "kind": kind,
            "name": resource_name,
            "namespace": wait.namespace or "default",
        }
        condition = {"type": wait.condition.removeprefix("condition="), "status": "True"}
        timing = {"wait": True, "wait_timeout": wait.timeout_seconds, "wait_condition": condition}
        return {"name": name, "kubernetes.core.k8s_info": target | timing}
    verb = ["rollout", "status"] if wait.condition == ROLLED_OUT else ["wait", f"--for={wait.condition}"]
    argv = ["kubectl", *verb, f"--timeout={_ATTEMPT_SECONDS}s", *to_kubectl_arguments(wait)]
    return {
        "name": name,
        "ansible.builtin.command": {"argv": argv},
        "changed_when": False,
        "register": "waited",
        "until": "waited.rc == 0",
        "retries": max(1, wait.timeout_seconds // _ATTEMPT_SECONDS),
        "delay": _ATTEMPT_SECONDS,
    }


def _render_playbook_path(file_name: str) -> str:
    return f"{{{{ playbook_dir }}}}/{file_name}"


def _render_jinja_variable(variable: str) -> str:
    return f"{{{{ {variable.lower()} }}}}"
