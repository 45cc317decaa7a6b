"""`trackbed explain TOPIC`: a fault, lint rule, cause, message, field of the Fabric, address, host or interface."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING

import click

from trackbed.cli.completion import complete_explainable
from trackbed.cli.options import emit_json, fabric_option, output_option, read_fabric, refuse, suggest_name
from trackbed.cli.terminal import print_prose

if TYPE_CHECKING:
    from collections.abc import Callable

    from trackbed.cluster.causes.catalogue import NamedCause
    from trackbed.fabric.model.field_reference import FieldReference


@click.command("explain")
@click.argument("topic", shell_complete=complete_explainable)
@fabric_option
@output_option("text", "json")
def command(topic: str, fabric_file: str, output_format: str) -> None:
    """Explain a fault, a lint rule, a field of the Fabric, an address, a host, an interface or an error message.

    A message is one of Multus, a CNI plugin, IPAM, a DRA driver, an operator, kubelet or scheduler, as
    `kubectl describe pod` shows it. The Fabric is read for addresses, hosts and interfaces only. Exits with 1 when an
    address belongs to no rail.

    \b
    Examples:
      trackbed explain route-rule-missing
      trackbed explain hca-prefix
      trackbed explain spec.addressing.scheme
      trackbed explain 172.18.1.10 -f fabric.yaml
      trackbed explain gpu-0 -f fabric.yaml
      trackbed explain rail0 -f fabric.yaml -o json
      trackbed explain 'LoadConf(): VF pci addr is required'
    """
    from trackbed.fabric.model.ranges import parse_address

    try:
        version, number = parse_address(topic.partition("/")[0])
    except ValueError:
        kinds = (_explain_fault, _explain_unjudged, _explain_rule, _explain_cause, _explain_field, _explain_message)
        if not any(explain(topic, output_format) for explain in kinds):
            _explain_name(topic, fabric_file, output_format)
        return
    _explain_address(version, number, fabric_file, output_format)


def _explain_address(version: int, number: int, fabric_file: str, output_format: str) -> None:
    from trackbed.fabric.plan.explain import explain_address

    loaded, plan = read_fabric(fabric_file)
    explanation = explain_address(loaded.fabric, plan, version, number, loaded.lock.nodes if loaded.lock else {})
    if output_format == "json":
        emit_json(explanation)
    else:
        print_prose(explanation.text)
    raise SystemExit(1 if explanation.role in {"other", "outside"} else 0)


def _explain_fault(topic: str, output_format: str) -> bool:
    from trackbed.cli.faults import print_fault
    from trackbed.doctor.catalogue import load_catalogue

    fault = load_catalogue().get(topic)
    if fault is not None:
        print_fault(fault, output_format)
    return fault is not None


def _explain_unjudged(topic: str, output_format: str) -> bool:
    from trackbed.doctor.unjudged import UNJUDGED

    kind = UNJUDGED.get(topic)
    if kind is not None:
        text = f"{kind.id} (unknown): {kind.title}\n  why: {kind.cause}\n  fix: {kind.fix}"
        _emit({**kind._asdict(), "verdict": "unknown"}, output_format, lambda: print_prose(text))
    return kind is not None


def _explain_rule(topic: str, output_format: str) -> bool:
    from trackbed.cli.lint import print_rule
    from trackbed.lint.catalogue import load_rules

    rule = load_rules().get(topic)
    if rule is not None:
        _emit(rule, output_format, lambda: print_rule(rule))
    return rule is not None


def _explain_cause(topic: str, output_format: str) -> bool:
    from trackbed.cluster.causes.catalogue import fill_cause, load_causes

    cause = load_causes().get(topic)
    if cause is not None:
        diagnosis = fill_cause(cause, {})
        document = {
            **diagnosis._asdict(),
            "names": dict(diagnosis.names),
            "program": cause.program,
            "example": cause.example,
        }
        _emit(document, output_format, lambda: _print_cause(diagnosis, cause.program, cause.example))
    return cause is not None


def _explain_message(topic: str, output_format: str) -> bool:
    from trackbed.cluster.causes.catalogue import diagnose, load_causes

    diagnosis = diagnose(topic) if " " in topic else None
    if diagnosis is not None:
        program = load_causes()[diagnosis.id].program
        document = {**diagnosis._asdict(), "names": dict(diagnosis.names), "program": program, "example": topic}
        _emit(document, output_format, lambda: _print_cause(diagnosis, program, ""))
    return diagnosis is not None


def _print_cause(diagnosis: NamedCause, program: str, example: str) -> None:
    print_prose(f"{diagnosis.id} ({program}): {diagnosis.title}")
    print_prose(f"  why: {diagnosis.cause}\n  fix: {diagnosis.fix}", len("why: "))
    if example:
        click.echo(f"  message: {example}")


def _explain_field(topic: str, output_format: str) -> bool:
    from trackbed.fabric.model.field_reference import find_field

    field = find_field(topic)
    if field is not None:
        _emit(field._asdict(), output_format, lambda: _print_field(field))
    return field is not None


def _emit(value: object, output_format: str, print_text: Callable[[], None]) -> None:
    if output_format == "json":
        emit_json(value)
    else:
        print_text()


def _print_field(field: FieldReference) -> None:
    default = f"\n  default: {field.default}" if field.default not in {"", "required"} else ""
    required = " (required)" if field.default == "required" else ""
    print_prose(f"{field.path}{required}: {field.text}\n  value: {field.values}{default}".replace("`", ""))
    click.echo("  example:\n" + indent(field.example, "    "))
    if field.fields:
        click.echo("\nfields:")
    for inner in field.fields:
        print_prose(f"  {inner.path}: {inner.text}".replace("`", ""))


def _explain_name(topic: str, fabric_file: str, output_format: str) -> None:
    from trackbed.fabric.plan.explain_name import explain_name

    if fabric_file != "-" and not Path(fabric_file).exists():
        refuse(f"{_describe_unknown(topic)}; to find a host or an interface, name its Fabric with -f FILE")
    _, plan = read_fabric(fabric_file)
    lines = explain_name(plan, topic)
    if not lines:
        refuse(f"{_describe_unknown(topic)}; fabric {plan.common.fabric!r} has no host or interface of this name")
    _emit({"name": topic, "text": "\n".join(lines)}, output_format, lambda: print_prose("\n".join(lines)))


def _describe_unknown(topic: str) -> str:
    from trackbed.cluster.causes.catalogue import load_causes
    from trackbed.doctor.catalogue import load_catalogue
    from trackbed.doctor.unjudged import UNJUDGED
    from trackbed.fabric.model.field_reference import list_paths_with_end, suggest_path
    from trackbed.lint.catalogue import load_rules

    paths = list_paths_with_end(topic)
    if paths:
        return f"{topic!r} is several fields of the Fabric: {', '.join(paths)}; name one of them"
    similar = suggest_path(topic) if "." in topic else ""
    known = [*load_catalogue(), *load_rules(), *load_causes(), *UNJUDGED]
    hint = f"; did you mean {similar!r}?" if similar else suggest_name(topic, known)
    return f"{topic!r} is no address, fault, lint rule, known message or field of the Fabric{hint}"
