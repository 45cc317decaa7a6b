"""`README.txt` of a bundle: what it is, what must be there, the order of its files, what a pod carries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trackbed.cluster.stacks.access import Access
from trackbed.cluster.stacks.install.steps import Apply, Install, Step
from trackbed.cluster.stacks.stack import Stack
from trackbed.fabric.plan.plan import Plan


def readme(stack: Stack, plan: Plan, steps: Sequence[Step]) -> Iterator[str]:
    """The text in pieces."""
    size = f"{len(plan.nodes)} nodes, {len(plan.common.rails)} rails"
    yield f"Stack {stack.name} for fabric {plan.common.fabric}: {size}\n"
    yield f"{stack.title}\n"
    yield from _list("It needs", stack.needs)
    yield from _list("It cannot do", stack.cannot)
    if steps:
        yield from _list("Order, as install.sh and playbook.yaml keep it", [_line(step) for step in steps])
    if steps and not stack.platform_operators:
        yield "\nhost/ holds what kubelet and containerd on each node need; the files say where they go.\n"
    yield from _list("Files", list(stack.files(plan)))
    yield from _list("A pod carries", list(_carried(stack.access(plan))))


def _list(head: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"\n{head}:\n"
        yield from (f"  {line}\n" for line in lines)


def _line(step: Step) -> str:
    if isinstance(step, Install):
        return f"{step.values}: chart {step.source.name} {step.version or 'of a version that the site chooses'}"
    if isinstance(step, Apply):
        return f"{step.file}: {step.what}" if step.file else step.what
    return f"wait for {step.nodes} nodes with label {step.label}"


def _carried(access: Access) -> Iterator[str]:
    if access.networks:
        listed = ",".join(f"{one.namespace}/{one.name}@{one.interface}" for one in access.networks)
        yield f"annotation k8s.v1.cni.cncf.io/networks: {listed}"
    yield from (f"annotation {name}: {value}" for name, value in access.annotations)
    yield from (f"resource {name}: {count}" for name, count in access.resources)
    yield from (f"resource {name}: {quantity}" for name, quantity in access.hugepages)
    yield from (f"claim {one.name} from template {one.template}" for one in access.claims)
    yield from (f"variable {name}={value}" for name, value in access.env if value)
    yield from (f"host path {one.path} at {one.mount}" for one in access.host_paths)
    yield from ("hostNetwork: true",) if access.host_network else ()
    yield from ("privileged: true",) if access.privileged else ()
