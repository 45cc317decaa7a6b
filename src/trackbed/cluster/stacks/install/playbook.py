"""`playbook.yaml`: the steps for Ansible, collection kubernetes.core; runs on the machine that reaches the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import yaml

from trackbed.cluster.stacks.install.script import columns, variable, wait_words
from trackbed.cluster.stacks.install.steps import Install, Labelled, Step
from trackbed.cluster.stacks.stack import ROLLED_OUT, Until, Wait
from trackbed.fabric.plan.plan import Plan

Task = dict[str, Any]
_API_VERSIONS = {"deployment": ("apps/v1", "Deployment")}
"""Kinds that kubernetes.core waits for by itself; other conditions go to `kubectl wait`."""
_TRY_SECONDS = 30
"""How long one try of `kubectl wait` lasts, and the pause after it: it fails at once on what does not exist yet."""


def playbook(stack: str, plan: Plan, steps: Sequence[Step]) -> Iterator[str]:
    """The playbook's text in pieces."""
    tasks = [task for step in steps for task in (*_step(step, stack), *chain.from_iterable(map(_until, step.until)))]
    play = {
        "name": f"Stack {stack} for fabric {plan.common.fabric}",
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "tasks": tasks,
    }
    yield "# Needs the collection kubernetes.core, helm and kubectl. Where install.sh asks for a variable, this asks\n"
    yield "# for the same in lower case: ansible-playbook playbook.yaml -e cilium_version=...\n"
    yield yaml.safe_dump([play], sort_keys=False, width=120)


def _step(step: Step, stack: str) -> Iterator[Task]:
    if isinstance(step, Install):
        yield {"name": f"Install chart {step.release}", "kubernetes.core.helm": _helm(step)}
    elif isinstance(step, Labelled):
        yield from _labelled(step)
    elif step.file:
        arguments = {
            "src": _here(step.file),
            "apply": True,
            "server_side_apply": {"field_manager": f"trackbed-{stack}"},
        }
        yield {"name": f"Apply {step.what}", "kubernetes.core.k8s": {"state": "present", **arguments}}


def _helm(step: Install) -> dict[str, Any]:
    repository = step.source.repository
    found: dict[str, Any] = {
        "release_name": step.release,
        "release_namespace": step.chart.namespace,
        "create_namespace": True,
        "chart_ref": step.reference if repository else _given(variable(step, "CHART")),
        "values_files": [_here(step.values)],
    }
    if repository:
        found["chart_version"] = step.version or _given(variable(step, "VERSION"))
        found |= {} if repository.startswith("oci:") else {"chart_repo_url": repository}
    if step.release == "cilium":
        found["release_values"] = {"devices": "{{ cilium_devices.split(',') }}"}
    return found


def _labelled(step: Labelled) -> Iterator[Task]:
    """As the script does: wait for all nodes, go on with those that are there, fail where none is."""
    yield {
        "name": f"Wait for {step.nodes} nodes with label {step.label}",
        "kubernetes.core.k8s_info": {"kind": "Node", "label_selectors": [step.label]},
        "register": "labelled",
        "until": f"labelled.resources | length >= {step.nodes}",
        "retries": step.seconds // 5,
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


def _until(until: Until) -> Iterator[Task]:
    if isinstance(until, Wait):
        yield _wait(until)
    else:
        yield from (_offered(names, nodes, until.timeout_seconds) for names, nodes in until.asked.items())


def _offered(names: Sequence[str], nodes: int, seconds: int) -> Task:
    """As the script does: one question for all nodes."""
    found = "offering.stdout_lines | reject('search', '(^| )(0|<none>)( |$)') | list | length"
    return {
        "name": f"Wait for {nodes} nodes that offer {', '.join(names)}",
        "ansible.builtin.command": {"argv": ["kubectl", "get", "nodes", "--no-headers", "-o", columns(names)]},
        "changed_when": False,
        "register": "offering",
        "until": f"offering.rc == 0 and {found} >= {nodes}",
        "retries": max(1, seconds // _TRY_SECONDS),
        "delay": _TRY_SECONDS,
    }


def _wait(wait: Wait) -> Task:
    name = f"Wait for {wait.resource}"
    kind, _, named = wait.resource.partition("/")
    if kind in _API_VERSIONS and wait.until.startswith("condition="):
        api_version, kind = _API_VERSIONS[kind]
        target = {"api_version": api_version, "kind": kind, "name": named, "namespace": wait.namespace or "default"}
        condition = {"type": wait.until.removeprefix("condition="), "status": "True"}
        timing = {"wait": True, "wait_timeout": wait.timeout_seconds, "wait_condition": condition}
        return {"name": name, "kubernetes.core.k8s_info": target | timing}
    verb = ["rollout", "status"] if wait.until == ROLLED_OUT else ["wait", f"--for={wait.until}"]
    argv = ["kubectl", *verb, f"--timeout={_TRY_SECONDS}s", *wait_words(wait)]
    return {
        "name": name,
        "ansible.builtin.command": {"argv": argv},
        "changed_when": False,
        "register": "waited",
        "until": "waited.rc == 0",
        "retries": max(1, wait.timeout_seconds // _TRY_SECONDS),
        "delay": _TRY_SECONDS,
    }


def _here(file: str) -> str:
    return f"{{{{ playbook_dir }}}}/{file}"


def _given(name: str) -> str:
    return f"{{{{ {name.lower()} }}}}"
