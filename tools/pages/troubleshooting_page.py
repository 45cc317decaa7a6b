"""The page of symptoms: what a person sees, and the faults of doctor's catalogue that cause it, with cause and fix."""

from collections.abc import Mapping
from pathlib import Path

import msgspec
import yaml

from trackbed.doctor.catalogue import Fault, fill_placeholders, load_catalogue

_HEAD = """# Troubleshooting

Find what you see. Below it are the faults that cause it, the likely ones first.

Run `trackbed doctor -f fabric.yaml` on the node before you try them: it checks all of them and names the first that is
broken. [A node is broken](howto/broken-node.md) shows how to read it, [faults](reference/faults.md) lists them by step.

If a pod does not start, run `trackbed status`: it reads the pod's events and names the cause, also with other stacks.
[Messages](reference/messages.md) lists what their programs report.
"""


class Symptom(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a person sees, and the ids of the faults that cause it, separated by white space."""

    see: str
    faults: str
    first: str = ""
    """Markdown: what to look at before the faults."""


def load_symptoms() -> Mapping[str, Symptom]:
    """Return the symptoms by title, in the order of the page."""
    document = yaml.load(Path(__file__).with_name("symptoms.yaml").read_bytes(), yaml.CSafeLoader)
    return msgspec.convert(document, dict[str, Symptom])


def render_troubleshooting_page() -> str:
    """Render the whole page."""
    return "".join([_HEAD, *(_render_symptom(title, symptom) for title, symptom in load_symptoms().items())])


def _render_symptom(title: str, symptom: Symptom) -> str:
    faults = [fill_placeholders(load_catalogue()[fault]) for fault in symptom.faults.split()]
    first = f"{symptom.first}\n" if symptom.first else ""
    return f"\n## {title}\n\n{symptom.see}\n\n{first}" + "".join(map(_render_fault, faults))


def _render_fault(fault: Fault) -> str:
    notes = [" Needs a reboot."] * fault.needs_reboot + [" Disrupts workloads on the node."] * fault.disruptive
    return f"- `{fault.id}`: {_escape(fault.cause)}\n\n  **Fix:** {_escape(fault.fix)}{''.join(notes)}\n"


def _escape(text: str) -> str:
    """Return a text whose placeholders, as <node>, are no tags of HTML; those in code are none already."""
    parts = text.split("`")
    return "`".join(part if index % 2 else part.replace("<", "\\<") for index, part in enumerate(parts))
