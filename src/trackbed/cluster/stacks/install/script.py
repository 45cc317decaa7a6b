"""`install.sh`: the steps as a script for bash, helm and kubectl; running it again changes only what differs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from importlib.resources import files

from trackbed.cluster.stacks.install.steps import Install, Labelled, Step
from trackbed.cluster.stacks.stack import Until, Wait
from trackbed.fabric.plan.plan import Plan

_HEAD = """\
#!/usr/bin/env bash
# Installs stack {stack} for fabric {fabric}. Run it again after any change or failure: what is in place stays.
stack={stack} # owns what it applies under this name, so two stacks in one cluster do not take each other's fields away
"""


def script(stack: str, plan: Plan, steps: Sequence[Step]) -> Iterator[str]:
    """The script's text in pieces."""
    yield _HEAD.format(stack=stack, fabric=plan.common.fabric)
    yield files("trackbed.cluster.stacks.install").joinpath("functions.sh").read_text(encoding="utf-8")
    yield from (f"{line}\n" for step in steps if isinstance(step, Install) for line in _asked(step))
    yield "\n"
    for step in steps:
        yield f"{_step(step)}\n"
        for until in step.until:
            yield from (f"{line}\n" for line in _until(until))
    yield f"say 'stack {stack} is in place'\n"


def variable(step: Install, what: str) -> str:
    """The environment variable by which the site says what the catalogue does not know."""
    return f"{re.sub('[^A-Z0-9]', '_', step.release.upper())}_{what}"


def _asked(step: Install) -> Iterator[str]:
    """What the site must say, asked before anything is installed."""
    if step.version is None:
        yield _required(variable(step, "VERSION"), f"say which version of {step.release} fits this cluster")
    if step.source.repository is None:
        yield _required(
            variable(step, "CHART"), f"{step.release} is published nowhere as a chart: say the path of yours"
        )
    if step.release == "cilium":
        yield _required("CILIUM_DEVICES", "name the management interface, such as eno1 or eno+; never a rail")


def _required(name: str, message: str) -> str:
    return f': "${{{name}:?{message}}}"'


def _step(step: Step) -> str:
    if isinstance(step, Install):
        words = ["chart", step.release, step.chart.namespace, step.values]
        return " ".join([shlex.join(words), *_chart(step)])
    if isinstance(step, Labelled):
        return shlex.join(["labelled", step.label, str(step.nodes), str(step.seconds)])
    return shlex.join(["apply", step.file, step.what]) if step.file else f"say {shlex.quote(step.what)}"


def _chart(step: Install) -> Iterator[str]:
    """The chart's own words: where it lies, its version, what the site said."""
    if step.source.repository is None:
        yield f'"${variable(step, "CHART")}"'
        return
    yield shlex.quote(step.reference)
    if not step.source.repository.startswith("oci:"):
        yield shlex.join(["--repo", step.source.repository])
    yield (
        f'--version "${variable(step, "VERSION")}"' if step.version is None else shlex.join(["--version", step.version])
    )
    if step.release == "cilium":
        yield '--set "devices={$CILIUM_DEVICES}"'


def columns(names: Sequence[str]) -> str:
    """How kubectl is asked what each node has of resources."""
    escaped = (name.replace(".", "\\.") for name in names)
    return "custom-columns=" + ",".join(f":.status.allocatable.{name}" for name in escaped)


def wait_words(wait: Wait) -> list[str]:
    """A wait's resource and namespace as words for kubectl."""
    return [*shlex.split(wait.resource), *(["--namespace", wait.namespace] if wait.namespace else [])]


def _until(until: Until) -> Iterator[str]:
    seconds = str(until.timeout_seconds)
    if isinstance(until, Wait):
        yield shlex.join(["wait_for", seconds, until.until, *wait_words(until)])
    else:
        asked = until.asked.items()
        yield from (
            shlex.join(["offered", seconds, str(nodes), ", ".join(names), columns(names)]) for names, nodes in asked
        )
