"""`README.txt` of an installation bundle: title, prerequisites, limitations, order of the files, additions to pods."""

from collections.abc import Iterator, Sequence

from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.install.steps import ApplyFile, InstallChart, Step
from trackbed.cluster.stacks.stack import Stack
from trackbed.fabric.plan.plan import Plan


def render_readme(stack: Stack, plan: Plan, steps: Sequence[Step]) -> Iterator[str]:
    """Yield the pieces of the README's text."""
    size = f"{len(plan.nodes)} nodes, {len(plan.common.rails)} rails"
    yield f"Stack {stack.name} for fabric {plan.common.fabric}: {size}\n"
    yield f"{stack.title}\n"
    yield from _render_section("It needs", stack.needs)
    yield from _render_section("It cannot do", stack.cannot)
    if steps:
        yield from _render_section(
            "Order, as install.sh and playbook.yaml keep it", [_describe_step(step) for step in steps]
        )
    if steps and not stack.platform_operators:
        yield "\nhost/ holds what kubelet and containerd on each node need; the files say where they go.\n"
    yield from _render_section("Files", list(stack.files(plan)))
    yield from _render_section("A pod carries", list(_describe_access(stack.access(plan))))


def _render_section(title: str, lines: Sequence[str]) -> Iterator[str]:
    """Yield a title and its indented lines; nothing if there are no lines."""
    if lines:
        yield f"\n{title}:\n"
        yield from (f"  {line}\n" for line in lines)


def _describe_step(step: Step) -> str:
    if isinstance(step, InstallChart):
        return f"{step.values_file}: chart {step.source.name} {step.version or 'of a version that the site chooses'}"
    if isinstance(step, ApplyFile):
        return f"{step.file}: {step.title}" if step.file else step.title
    return f"wait for {step.node_count} nodes with label {step.label}"


def _describe_access(access: Access) -> Iterator[str]:
    """Yield a line for each addition to a pod."""
    if access.networks:
        listed = ",".join(f"{network.namespace}/{network.name}@{network.interface}" for network in access.networks)
        yield f"annotation k8s.v1.cni.cncf.io/networks: {listed}"
    yield from (f"annotation {name}: {value}" for name, value in access.annotations)
    yield from (f"resource {name}: {count}" for name, count in access.resources)
    yield from (f"resource {name}: {quantity}" for name, quantity in access.hugepages)
    yield from (f"claim {claim.name} from template {claim.template}" for claim in access.claims)
    yield from (f"variable {name}={value}" for name, value in access.env if value)
    yield from (f"host path {host_path.path} at {host_path.mount}" for host_path in access.host_paths)
    yield from ("hostNetwork: true",) if access.host_network else ()
    yield from ("privileged: true",) if access.privileged else ()
