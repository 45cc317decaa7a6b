"""`trackbed lint`: mistakes in Kubernetes manifests."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from stat import S_IMODE
from typing import TYPE_CHECKING, Any

import click

from trackbed.cli.options import emit_json, refuse, suggest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trackbed.lint.document import Document
    from trackbed.lint.finding import Breach, LintProblem
    from trackbed.lint.schemas.crds import Schemas

_ENDINGS = {".yaml", ".yml", ".json"}
_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


@click.command("lint")
@click.argument("paths", nargs=-1, metavar="[FILE|DIR|-]...")
@click.option(
    "--crds", envvar="TRACKBED_CRDS", metavar="DIR", help="CRDs to check fields against [env: TRACKBED_CRDS]."
)
@click.option(
    "--nodes", type=click.IntRange(1), metavar="N", help="Nodes of the cluster; checks whether pools suffice."
)
@click.option("--fix", is_flag=True, help="Write the safe fixes and show them as a diff.")
@click.option("--cluster", is_flag=True, help="Read the objects from a cluster instead.")
@click.option("--kubeconfig", metavar="FILE", help="With --cluster: how to reach it. Default: as kubectl.")
@click.option("--explain", metavar="RULE", help="Explain a rule and exit.")
@click.option("--rules", "list_rules", is_flag=True, help="List the rules and exit.")
@click.option(
    "-o",
    "--output",
    "output_format",
    type=click.Choice(["text", "json", "sarif", "junit"]),
    default="text",
    show_default=True,
    help="Output format.",
)
def command(
    paths: tuple[str, ...],
    crds: str | None,
    nodes: int | None,
    fix: bool,
    cluster: bool,
    kubeconfig: str | None,
    explain: str | None,
    list_rules: bool,
    output_format: str,
) -> None:
    """Find mistakes in Kubernetes manifests of GPU networks.

    Reports what a strict API server would refuse (with --crds), and what no schema can express: ranges, references,
    RDMA modes, NCCL's environment. All files of a call are checked together.

    \b
    Examples:
      trackbed lint manifests/ --crds crds/
      kustomize build . | trackbed lint -
      trackbed lint --cluster --crds crds/
      trackbed lint pools.yaml --nodes 512
      trackbed lint manifests/ --fix
      trackbed lint manifests/ -o sarif > lint.sarif
      trackbed lint --explain hca-prefix

    \b
    Exit status: 0 nothing found (or notes only), 1 errors or warnings, 2 wrong use or unreadable input.
    """
    if explain is not None or list_rules:
        _explain_rules(explain, output_format)
        return
    if bool(paths) == cluster:
        refuse("name files or folders to lint, - for standard input, or --cluster alone")
    texts = dict(_read_texts(paths))
    documents, breaches, failed = (_read_cluster(kubeconfig), [], False) if cluster else _read_documents(texts)
    problems = _find_problems(documents, breaches, _load_schemas(crds, output_format), nodes)
    if fix:
        problems = _apply_fixes(texts, problems, crds, nodes)
    _print_problems(problems, output_format, texts)
    raise SystemExit(2 if failed else int(any(problem.severity != "note" for problem in problems)))


def _explain_rules(rule_id: str | None, output_format: str) -> None:
    from trackbed.lint.catalogue import explain_rule, load_rules

    rules = load_rules()
    if rule_id is not None and rule_id not in rules:
        refuse(f"no rule {rule_id!r}{suggest(rule_id, rules, 'see trackbed lint --rules')}")
    chosen = [rules[rule_id]] if rule_id else list(rules.values())
    if output_format == "json":
        emit_json(chosen)
    elif rule_id:
        click.echo(explain_rule(rules[rule_id]))
    else:
        from trackbed.cli.tables import print_table

        rows = [(rule.id, rule.severity, "yes" if rule.safe else "", rule.title) for rule in chosen]
        print_table(("rule", "severity", "--fix", "what"), rows)


def _read_texts(paths: tuple[str, ...]) -> Iterable[tuple[str, bytes]]:
    from trackbed.fabric.model.source import MAX_BYTES

    for path in paths:
        if path == "-":
            yield "<stdin>", sys.stdin.buffer.read(MAX_BYTES + 1)
            continue
        for file in _list_files(Path(path)):
            try:
                with file.open("rb") as stream:
                    yield str(file), stream.read(MAX_BYTES + 1)
            except OSError as error:
                refuse(f"cannot read {file}: {error.strerror}")


def _list_files(path: Path) -> list[Path]:
    """Return a file itself, or the manifests in a folder at any depth, without hidden ones."""
    if not path.is_dir():
        return [path]
    files = sorted(file for file in path.rglob("*") if file.suffix in _ENDINGS and file.is_file())
    kept = [file for file in files if not any(part.startswith(".") for part in file.relative_to(path).parts)]
    if not kept:
        refuse(f"{path} holds no file that ends in .yaml, .yml or .json")
    return kept


def _read_documents(texts: dict[str, bytes]) -> tuple[list[Document], list[Breach], bool]:
    """Return the documents, the breaches found while reading, and whether a file could not be read."""
    from trackbed.fabric.model.problems import SpecError
    from trackbed.lint.manifests import read_manifests

    documents: list[Document] = []
    breaches: list[Breach] = []
    failed = False
    for file, raw in texts.items():
        try:
            objects, early = read_manifests(raw, file)
        except SpecError as error:
            failed = True
            for problem in error.problems:
                click.echo(problem, err=True)
            continue
        documents += objects
        breaches += early
    return documents, breaches, failed


def _read_cluster(kubeconfig: str | None) -> list[Document]:
    from trackbed.cli.cluster_session import ClusterSession
    from trackbed.cluster.api.errors import KubeError, UnknownKindError
    from trackbed.lint.live import READ, to_documents

    objects: dict[str, list[dict[str, Any]]] = {}
    try:
        with ClusterSession(kubeconfig) as cluster:
            for api_version, kind in READ:
                with suppress(UnknownKindError):
                    objects[kind] = objects.get(kind) or cluster.collect(cluster.client.list(api_version, kind))
    except KubeError as error:
        refuse(str(error))
    return to_documents(body for bodies in objects.values() for body in bodies)


def _load_schemas(crds: str | None, output_format: str) -> Schemas | None:
    if not crds:
        if output_format == "text":
            click.echo("note: no CRDs (--crds DIR): fields and types are not checked, rules only", err=True)
        return None
    from trackbed.fabric.model.problems import SpecError
    from trackbed.lint.schemas.crds import index_crds

    if not Path(crds).is_dir():
        refuse(f"--crds {crds} is not a folder; name one that holds CustomResourceDefinitions")
    try:
        return index_crds(_read_texts((crds,)))
    except SpecError as error:
        refuse(str(error))


def _find_problems(
    documents: list[Document], breaches: list[Breach], schemas: Schemas | None, nodes: int | None
) -> tuple[LintProblem, ...]:
    from trackbed.fabric.model.problems import SpecError
    from trackbed.lint.corpus import index_documents
    from trackbed.lint.run import lint

    try:
        return lint(index_documents(documents, nodes), schemas, breaches)
    except SpecError as error:
        refuse(str(error))


def _apply_fixes(
    texts: dict[str, bytes], problems: tuple[LintProblem, ...], crds: str | None, nodes: int | None
) -> tuple[LintProblem, ...]:
    """Write the safe fixes, print them as a diff, and return the problems that remain."""
    from trackbed.host.atomic import replace
    from trackbed.lint.fix import apply_fixes, render_diff

    if not texts or "<stdin>" in texts:
        refuse("--fix writes files; it cannot change standard input or a cluster")
    for file in sorted({problem.file for problem in problems if problem.edit}):
        before = texts[file].decode("utf-8")
        after = apply_fixes(before, [problem for problem in problems if problem.file == file])
        click.echo(render_diff(file, before, after), nl=False, err=True)
        if after != before:
            try:
                target = Path(file).resolve()  # keeps a symbolic link
                replace(target, after.encode("utf-8"), S_IMODE(target.stat().st_mode))
            except OSError as error:
                refuse(f"cannot write {file}: {error.strerror}")
            texts[file] = after.encode("utf-8")
    documents, breaches, _ = _read_documents(texts)
    return _find_problems(documents, breaches, _load_schemas(crds, "quiet"), nodes)


def _print_problems(problems: tuple[LintProblem, ...], output_format: str, files: Iterable[str]) -> None:
    if output_format == "json":
        emit_json(problems)
    elif output_format == "sarif":
        from trackbed.lint.output.sarif import build_sarif

        emit_json(build_sarif(problems))
    elif output_format == "junit":
        from trackbed.lint.output.junit import render_junit

        click.echo(render_junit(problems, files), nl=False)
    else:
        from trackbed.lint.output.text import render_lines

        for line in render_lines(problems, _paint):
            click.echo(line)


def _paint(text: str, style: str) -> str:
    return click.style(text, bold=True, fg=_COLOURS.get(style))
