"""`install.sh`: the installation steps for bash, helm and kubectl. The script is idempotent."""

import re
import shlex
from collections.abc import Iterator, Sequence
from importlib.resources import files

from trackbed.cluster.stacks.install.steps import ApplyFile, InstallChart, Step, WaitForLabel
from trackbed.cluster.stacks.stack import AnyWait, Stack, Wait
from trackbed.fabric.plan.plan import Plan

_SCRIPT_HEADER = """\
#!/usr/bin/env bash
# Installs stack {stack} for fabric {fabric}. Run it again after any change or failure: it is idempotent.
stack={stack} # field manager of what is applied, so that two stacks in one cluster do not remove each other's fields
"""


def render_script(stack: Stack, plan: Plan, steps: Sequence[Step]) -> Iterator[str]:
    """Yield the pieces of the script's text."""
    yield _SCRIPT_HEADER.format(stack=stack.name, fabric=plan.common.fabric)
    yield files("trackbed.cluster.stacks.install").joinpath("functions.sh").read_text(encoding="utf-8")
    yield from (
        f"{line}\n" for step in steps if isinstance(step, InstallChart) for line in _render_variable_checks(step)
    )
    yield "\n"
    yield from (f"echo {shlex.quote(str(problem))} >&2\n" for problem in stack.warnings(plan))
    for step in steps:
        yield f"{_render_step_command(step)}\n"
        for wait in step.waits:
            yield from (f"{line}\n" for line in _render_wait_commands(wait))
    yield f"say 'stack {stack.name} is in place'\n"


def get_variable_name(step: InstallChart, suffix: str) -> str:
    """Return the environment variable by which the site sets a chart's VERSION or CHART, such as CALICO_VERSION."""
    return f"{re.sub('[^A-Z0-9]', '_', step.release_name.upper())}_{suffix}"


def _render_variable_checks(step: InstallChart) -> Iterator[str]:
    """Yield shell checks of the environment variables that the site must set for a chart; they run first."""
    if step.version is None:
        yield _render_variable_check(
            get_variable_name(step, "VERSION"), f"say which version of {step.release_name} fits this cluster"
        )
    if step.source.repository is None:
        yield _render_variable_check(
            get_variable_name(step, "CHART"),
            f"{step.release_name} is published nowhere as a chart: say the path of yours",
        )
    if step.release_name == "cilium":
        yield _render_variable_check(
            "CILIUM_DEVICES", "name the management interface, such as eno1 or eno+; never a rail"
        )


def _render_variable_check(variable: str, message: str) -> str:
    """Return a shell command that exits with the message if an environment variable is unset or empty."""
    return f': "${{{variable}:?{message}}}"'


def _render_step_command(step: Step) -> str:
    if isinstance(step, InstallChart):
        arguments = ["install_chart", step.release_name, step.chart.namespace, step.values_file]
        return " ".join([shlex.join(arguments), *_render_chart_arguments(step)])
    if isinstance(step, WaitForLabel):
        return shlex.join(["wait_for_label", step.label, str(step.node_count), str(step.timeout_seconds)])
    return _render_apply_command(step) if step.file else f"say {shlex.quote(step.title)}"


def _render_apply_command(step: ApplyFile) -> str:
    options = ["--force-conflicts"] if step.force else []
    if step.yields_to is None:
        return shlex.join(["apply_file", step.file, step.title, *options])
    foreign = step.yields_to
    kinds = ",".join(foreign.group_kinds)
    return shlex.join(["apply_unless_foreign", foreign.namespace, foreign.name, kinds, step.file, step.title, *options])


def _render_chart_arguments(step: InstallChart) -> Iterator[str]:
    """Yield helm's arguments for a chart: its name, repository and version, and values that the site sets."""
    if step.source.repository is None:
        yield f'"${get_variable_name(step, "CHART")}"'
        return
    yield shlex.quote(step.chart_reference)
    if not step.source.repository.startswith("oci:"):
        yield shlex.join(["--repo", step.source.repository])
    yield (
        f'--version "${get_variable_name(step, "VERSION")}"'
        if step.version is None
        else shlex.join(["--version", step.version])
    )
    if step.release_name == "cilium":
        yield '--set "devices={$CILIUM_DEVICES}"'


def render_allocatable_columns(resource_names: Sequence[str]) -> str:
    """Return kubectl's output format with a column for each allocatable resource of a node."""
    escaped = (name.replace(".", "\\.") for name in resource_names)
    return "custom-columns=" + ",".join(f":.status.allocatable.{name}" for name in escaped)


def to_kubectl_arguments(wait: Wait) -> list[str]:
    """Return the resource and the namespace of a wait as kubectl arguments."""
    return [*shlex.split(wait.resource), *(["--namespace", wait.namespace] if wait.namespace else [])]


def _render_wait_commands(wait: AnyWait) -> Iterator[str]:
    seconds = str(wait.timeout_seconds)
    if isinstance(wait, Wait):
        yield shlex.join(["wait_for", seconds, wait.condition, *to_kubectl_arguments(wait)])
    else:
        required_counts = wait.required_counts.items()
        yield from (
            shlex.join(["wait_for_resources", seconds, str(nodes), ", ".join(names), render_allocatable_columns(names)])
            for names, nodes in required_counts
        )
