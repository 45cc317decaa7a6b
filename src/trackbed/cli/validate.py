"""`trackbed validate`: everything that is wrong in a Fabric, with its place."""

from __future__ import annotations

import click

from trackbed.cli.options import build_problem_document, emit_json, fabric_option, find_problems, output_option
from trackbed.fabric.counts import format_count


@click.command("validate")
@fabric_option
@output_option("text", "json")
def command(fabric_file: str, output_format: str) -> None:
    """Check a Fabric and its lock, and show everything that is wrong at once; nothing else is read.

    Exits with 0 when it can be planned, also with warnings, 1 when it cannot, 2 when the file cannot be read.

    \b
    Examples:
      trackbed validate
      trackbed validate -f fabric.yaml -o json
    """
    problems = find_problems(fabric_file)
    errors = sum(problem.severity == "error" for problem in problems)
    if output_format == "json":
        emit_json({"valid": not errors, "problems": [build_problem_document(problem) for problem in problems]})
    else:
        for problem in problems:
            click.echo(problem)
        counts = f"{format_count(errors, 'error')}, {format_count(len(problems) - errors, 'warning')}"
        click.echo(f"{'the Fabric' if fabric_file == '-' else fabric_file}: {counts}")
    raise SystemExit(1 if errors else 0)
