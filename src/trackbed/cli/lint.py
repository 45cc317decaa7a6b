"""`trackbed lint`: mistakes in manifests, before a cluster meets them."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from stat import S_IMODE
from typing import TYPE_CHECKING, Any

import click

from trackbed.cli.options import emit_json, meant, refuse

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
@click.option("--kubeconfig", metavar="FILE", help="With --cluster: which one. Default: as kubectl.")
@click.option("--explain", metavar="RULE", help="Explain one rule and end.")
@click.option("--rules", "list_rules", is_flag=True, help="List the rules and end.")
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["text", "json", "sarif", "junit"]),
    default="text",
    show_default=True,
    help="Form of the output.",
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
    form: str,
) -> None:
    """Find mistakes in Kubernetes manifests of GPU networks.

    What a strict API server would refuse (with --crds), and what no schema can hold: ranges, names that must meet,
    RDMA modes, NCCL's environment. Files of one call are seen together.

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
        _tell(explain, form)
        return
    if bool(paths) == cluster:
        refuse("name files or folders to lint, - for standard input, or --cluster alone")
    texts = dict(_texts(paths))
    documents, hits, failed = (_cluster(kubeconfig), [], False) if cluster else _read(texts)
    findings = _lint(documents, hits, _schemas(crds, form), nodes)
    if fix:
        findings = _fix(texts, findings, crds, nodes)
    _show(findings, form, texts)
    raise SystemExit(2 if failed else int(any(one.severity != "note" for one in findings)))


def _tell(rule_id: str | None, form: str) -> None:
    from trackbed.lint.catalogue import explain_rule, load_rules

    known = load_rules()
    if rule_id is not None and rule_id not in known:
        refuse(f"no rule {rule_id!r}{meant(rule_id, known, 'see trackbed lint --rules')}")
    chosen = [known[rule_id]] if rule_id else list(known.values())
    if form == "json":
        emit_json(chosen)
    elif rule_id:
        click.echo(explain_rule(known[rule_id]))
    else:
        from trackbed.cli.tables import table

        rows = [(rule.id, rule.severity, "yes" if rule.safe else "", rule.title) for rule in chosen]
        table(("rule", "severity", "--fix", "what"), rows)


def _texts(paths: tuple[str, ...]) -> Iterable[tuple[str, bytes]]:
    from trackbed.fabric.model.source import MAX_BYTES

    for path in paths:
        if path == "-":
            yield "<stdin>", sys.stdin.buffer.read(MAX_BYTES + 1)
            continue
        for file in _files(Path(path)):
            try:
                with file.open("rb") as stream:
                    yield str(file), stream.read(MAX_BYTES + 1)
            except OSError as error:
                refuse(f"cannot read {file}: {error.strerror}")


def _files(path: Path) -> list[Path]:
    """The file itself, or the manifests of a folder and the folders in it (hidden ones left out)."""
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.rglob("*") if file.suffix in _ENDINGS and file.is_file())
    kept = [file for file in found if not any(part.startswith(".") for part in file.relative_to(path).parts)]
    if not kept:
        refuse(f"{path} holds no file that ends in .yaml, .yml or .json")
    return kept


def _read(texts: dict[str, bytes]) -> tuple[list[Document], list[Breach], bool]:
    """Documents, what was found while reading, and whether a file could not be read; the others are linted."""
    from trackbed.fabric.model.problems import SpecError
    from trackbed.lint.manifests import read_manifests

    documents: list[Document] = []
    hits: list[Breach] = []
    failed = False
    for file, raw in texts.items():
        try:
            found, early = read_manifests(raw, file)
        except SpecError as error:
            failed = True
            for problem in error.problems:
                click.echo(problem, err=True)
            continue
        documents += found
        hits += early
    return documents, hits, failed


def _cluster(kubeconfig: str | None) -> list[Document]:
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


def _schemas(crds: str | None, form: str) -> Schemas | None:
    if not crds:
        if form == "text":
            click.echo("note: no CRDs (--crds DIR): fields and types are not checked, rules only", err=True)
        return None
    from trackbed.fabric.model.problems import SpecError
    from trackbed.lint.schemas.crds import index_crds

    if not Path(crds).is_dir():
        refuse(f"--crds {crds} is no folder; name one that holds CustomResourceDefinitions")
    try:
        return index_crds(_texts((crds,)))
    except SpecError as error:
        refuse(str(error))


def _lint(
    documents: list[Document], hits: list[Breach], schemas: Schemas | None, nodes: int | None
) -> tuple[LintProblem, ...]:
    from trackbed.fabric.model.problems import SpecError
    from trackbed.lint.corpus import index_documents
    from trackbed.lint.run import lint

    try:
        return lint(index_documents(documents, nodes), schemas, hits)
    except SpecError as error:
        refuse(str(error))


def _fix(
    texts: dict[str, bytes], findings: tuple[LintProblem, ...], crds: str | None, nodes: int | None
) -> tuple[LintProblem, ...]:
    """Write the fixes, print them, and lint what is there now."""
    from trackbed.host.atomic import replace
    from trackbed.lint.fix import apply_fixes, render_diff

    if not texts or "<stdin>" in texts:
        refuse("--fix writes files; it cannot mend standard input or a cluster")
    for file in sorted({one.file for one in findings if one.edit}):
        before = texts[file].decode("utf-8")
        after = apply_fixes(before, [one for one in findings if one.file == file])
        click.echo(render_diff(file, before, after), nl=False, err=True)
        if after != before:
            try:
                target = Path(file).resolve()  # a symbolic link stays one
                replace(target, after.encode("utf-8"), S_IMODE(target.stat().st_mode))
            except OSError as error:
                refuse(f"cannot write {file}: {error.strerror}")
            texts[file] = after.encode("utf-8")
    documents, hits, _ = _read(texts)
    return _lint(documents, hits, _schemas(crds, "quiet"), nodes)


def _show(findings: tuple[LintProblem, ...], form: str, files: Iterable[str]) -> None:
    if form == "json":
        emit_json(findings)
    elif form == "sarif":
        from trackbed.lint.output.sarif import build_sarif

        emit_json(build_sarif(findings))
    elif form == "junit":
        from trackbed.lint.output.junit import render_junit

        click.echo(render_junit(findings, files), nl=False)
    else:
        from trackbed.lint.output.text import render_lines

        for line in render_lines(findings, _paint):
            click.echo(line)


def _paint(text: str, style: str) -> str:
    return click.style(text, bold=True, fg=_COLOURS.get(style))
