"""All files of a stack, in the order of their use; objects are written as they are made, whatever their number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from trackbed.cluster.stacks.install.host import host_files
from trackbed.cluster.stacks.install.playbook import playbook
from trackbed.cluster.stacks.install.readme import readme
from trackbed.cluster.stacks.install.script import script
from trackbed.cluster.stacks.install.steps import Apply, Install, Step, steps
from trackbed.cluster.stacks.install.values import values
from trackbed.cluster.stacks.stack import Stack
from trackbed.fabric.plan.plan import Plan
from trackbed.fabric.yaml_text import render_documents

File = tuple[str, Iterable[str]]
"""Name below the bundle's folder, and text in pieces that may be read once."""


def bundle(stack: Stack, plan: Plan) -> Iterator[File]:
    """Name and text of each file; a file's text must be read before the next file is asked for."""
    found = tuple(_not_empty(steps(stack, plan)))
    yield "README.txt", readme(stack, plan, found)
    yield from _files(found)
    if found:
        yield "install.sh", script(stack.name, plan, found)
        yield "playbook.yaml", playbook(stack.name, plan, found)
    if found and not stack.platform_operators:
        yield from host_files().items()
    for name, text in stack.files(plan).items():
        yield name, (text,)


def _not_empty(found: Iterable[Step]) -> Iterator[Step]:
    """The steps; a stage without objects keeps what it waits for but gets no file: kubectl refuses empty ones."""
    for step in found:
        if not isinstance(step, Apply):
            yield step
            continue
        objects = iter(step.objects)
        first = next(objects, None)
        if first is not None:
            yield Apply(step.file, step.what, chain((first,), objects), step.until)
        elif step.until:
            yield Apply("", step.what, (), step.until)


def _files(found: Iterable[Step]) -> Iterator[File]:
    for step in found:
        if isinstance(step, Install):
            yield step.values, values(step)
        elif isinstance(step, Apply) and step.file:
            yield step.file, render_documents(step.objects)
