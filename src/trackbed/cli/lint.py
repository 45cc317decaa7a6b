"""`trackbed lint`: mistakes in Kubernetes manifests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackbed.cli.completion import complete_file, complete_rule
from trackbed.cli.files import replace_file
from trackbed.cli.lint_inputs import load_schemas, read_cluster, read_crds, read_documents, read_texts
from trackbed.cli.old_forms import refuse_option
from trackbed.cli.options import choose_entries, emit_json, output_option, refuse
from trackbed.cli.terminal import emit_document, print_prose, print_styled
from trackbed.fabric.counts import format_count

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from trackbed.lint.catalogue import Rule
    from trackbed.lint.document import Document
    from trackbed.lint.finding import Breach, LintProblem
    from trackbed.lint.schemas.crds import Schemas

_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


@click.command("lint")
@click.argument("paths", nargs=-1, metavar="[FILE|DIR|-]...", shell_complete=complete_file)
@click.option(
    "--crds",
    envvar="TRACKBED_CRDS",
    metavar="DIR",
    help="CRDs of further kinds, or of other versions than the shipped ones [env: TRACKBED_CRDS].",
)
@click.option(
    "--node-count",
    "nodes",
    type=click.IntRange(1),
    metavar="N",
    help="Nodes of the cluster; checks whether pools suffice.",
)
@refuse_option("--nodes", instead="--node-count {value}")
@click.option("--fix", is_flag=True, help="Write the safe fixes and show them as a diff.")
@click.option(
    "--baseline", metavar="FILE", shell_complete=complete_file, help="Do not report the problems that FILE holds."
)
@click.option("--update-baseline", is_flag=True, help="Write the problems to the file of --baseline.")
@click.option("--cluster", is_flag=True, help="Lint the objects of a cluster; with files, check them against its CRDs.")
@click.option("--kubeconfig", metavar="FILE", help="With --cluster: how to reach it. Default: as kubectl.")
@click.option("--explain", metavar="RULE", shell_complete=complete_rule, help="Explain a rule and exit.")
@click.option("--rules", "list_rules", is_flag=True, help="List the rules and exit.")
@output_option("text", "json", "sarif", "junit")
def command(
    paths: tuple[str, ...],
    crds: str | None,
    nodes: int | None,
    fix: bool,
    baseline: str | None,
    update_baseline: bool,
    cluster: bool,
    kubeconfig: str | None,
    explain: str | None,
    list_rules: bool,
    output_format: str,
) -> None:
    """Find mistakes in Kubernetes manifests of GPU networks.

    Reports what a strict API server would refuse, and what no schema can express: ranges, references, RDMA modes,
    NCCL's environment. The files of one folder are checked together. The schemas of Kubernetes and of the operators
    around GPU networks are built in; --crds adds others.

    \b
    Examples:
      trackbed lint manifests/
      kustomize build . | trackbed lint -
      trackbed lint --cluster
      trackbed lint pools.yaml --node-count 512
      trackbed lint manifests/ --fix
      trackbed lint manifests/ --baseline lint-baseline.json --update-baseline
      trackbed lint manifests/ -o sarif > lint.sarif
      trackbed lint --explain hca-prefix

    A comment accepts a problem of its line, or at the top of a file those of the file:
    # trackbed: ignore RULE reason

    Exits with 0 when nothing or only notes were found, 1 on errors or warnings, 2 on wrong use or unreadable input.
    """
    if explain is not None or list_rules:
        _explain_rules(explain, output_format)
        return
    if not paths and not cluster:
        refuse("name files or folders to lint, - for standard input, or --cluster")
    if update_baseline and baseline is None:
        refuse("--update-baseline writes the file of --baseline FILE; name one")
    texts = dict(read_texts(paths))
    is_live = cluster and not paths
    documents, breaches, failed = (read_cluster(kubeconfig), [], False) if is_live else read_documents(texts, paths)
    # An API server has checked the objects that it holds; its own version may have other fields than the shipped one.
    schemas = None if is_live and not crds else load_schemas(crds, read_crds(kubeconfig) if cluster else ())
    problems = _find_problems(documents, breaches, schemas, nodes)
    if fix:
        problems = _apply_fixes(texts, paths, problems, schemas, nodes)
    if baseline is not None:
        problems = _apply_baseline(problems, Path(baseline), update=update_baseline)
    _print_problems(problems, output_format, texts)
    raise SystemExit(2 if failed else int(any(problem.severity != "note" for problem in problems)))


def _explain_rules(rule_id: str | None, output_format: str) -> None:
    from trackbed.lint.catalogue import load_rules

    chosen = choose_entries(load_rules(), rule_id, "rule", "see trackbed lint --rules")
    if output_format == "json":
        emit_json(chosen)
    elif rule_id:
        print_rule(chosen[0])
    else:
        from trackbed.cli.tables import print_table

        rows = [(rule.id, rule.severity, "yes" if rule.safe else "", rule.title) for rule in chosen]
        print_table(("rule", "severity", "--fix", "what"), rows)


def print_rule(rule: Rule) -> None:
    """Print the full explanation of a rule."""
    repair = "\n--fix repairs it." if rule.safe else ""
    nodes = f" (with --node-count {rule.nodes})" if rule.nodes else ""
    print_prose(f"{rule.id} ({rule.severity}): {rule.title}")
    print_prose(f"\n{rule.why}\n\nfix: {rule.fix}{repair}\n", 0)
    click.echo(f"found in{nodes}:\n\n{rule.bad}\nsound:\n\n{rule.good}")


def _find_problems(
    documents: list[Document], breaches: list[Breach], schemas: Schemas | None, nodes: int | None
) -> tuple[LintProblem, ...]:
    from trackbed.fabric.model.problems import SpecError
    from trackbed.lint.corpus import index_documents
    from trackbed.lint.run import lint

    try:
        return lint(index_documents(documents, nodes), schemas, breaches)
    except SpecError as error:
        refuse(error)


def _apply_fixes(
    texts: dict[str, bytes],
    paths: Collection[str],
    problems: tuple[LintProblem, ...],
    schemas: Schemas | None,
    nodes: int | None,
) -> tuple[LintProblem, ...]:
    """Write the safe fixes, print them as a diff, and return the problems that remain."""
    from trackbed.lint.fix import apply_fixes, render_diff

    if not texts or "<stdin>" in texts:
        refuse("--fix writes files; it cannot change standard input or a cluster")
    for file in sorted({problem.file for problem in problems if problem.edit}):
        before = texts[file].decode("utf-8")
        after = apply_fixes(before, [problem for problem in problems if problem.file == file])
        click.echo(render_diff(file, before, after), nl=False, err=True)
        if after != before:
            replace_file(Path(file), after.encode("utf-8"))
            texts[file] = after.encode("utf-8")
    documents, breaches, _ = read_documents(texts, paths)
    return _find_problems(documents, breaches, schemas, nodes)


def _apply_baseline(problems: tuple[LintProblem, ...], path: Path, *, update: bool) -> tuple[LintProblem, ...]:
    """Return the problems that the baseline does not hold, after writing it if `update` is set."""
    from trackbed.fabric.model.problems import SpecError
    from trackbed.lint.baseline import compare_with_baseline, read_baseline, render_baseline

    folder = path.absolute().parent
    try:
        if update:
            replace_file(path, render_baseline(problems, folder))
            count = sum(problem.severity != "note" for problem in problems)
            click.echo(f"wrote {path}: {format_count(count, 'problem')} accepted", err=True)
        comparison = compare_with_baseline(problems, read_baseline(path), folder)
    except FileNotFoundError:
        refuse(f"--baseline {path} is not there; write it with --update-baseline")
    except (SpecError, OSError) as error:
        refuse(error)
    if comparison.fixed:
        gone = f"{format_count(comparison.fixed, 'problem')} of {path} {'is' if comparison.fixed == 1 else 'are'} gone"
        click.echo(f"note: {gone}; --update-baseline removes {'it' if comparison.fixed == 1 else 'them'}", err=True)
    return comparison.problems


def _print_problems(problems: tuple[LintProblem, ...], output_format: str, files: Iterable[str]) -> None:
    if output_format == "json":
        emit_json(problems)
    elif output_format == "sarif":
        from trackbed.lint.output.sarif import build_sarif

        emit_json(build_sarif(problems))
    elif output_format == "junit":
        from trackbed.lint.output.junit import render_junit

        emit_document(render_junit(problems, files))
    else:
        from trackbed.lint.output.text import iter_report_lines

        for line in iter_report_lines(problems, _style_text):
            print_styled(line, hanging=4)


def _style_text(text: str, style: str) -> str:
    return click.style(text, bold=True, fg=_COLOURS.get(style))
