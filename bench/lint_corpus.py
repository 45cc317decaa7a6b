"""`bench/run.py lint DIR`: precision and recall of `trackbed lint` on manifests of other projects, and its speed.

DIR holds OWNER+REPOSITORY/PATH; each file is linted alone. `lint_judgements.tsv` says which findings are true. The
repositories are split by `--seed` into an open half, to be looked into while rules are written, and a half that is
kept back to measure with.
"""

import random
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from bench import lint_seeds
from bench.lint_mutations import measure_mutations
from trackbed.fabric.model.problems import SpecError
from trackbed.lint.corpus import index_documents
from trackbed.lint.finding import LintProblem
from trackbed.lint.manifests import parse_manifests
from trackbed.lint.run import lint
from trackbed.lint.schemas.crds import Schemas, index_crds

_INDEX = Path(__file__).with_name("lint_judgements.tsv")
_EXAMPLE_CRD = Path(__file__).parents[1] / "src" / "trackbed" / "lint" / "schemas" / "example.yaml"
_SEED_FILE_BYTES = 10_000
_ENDINGS = {".yaml", ".yml", ".json"}
_SEVERITIES = ("error", "warning", "note")

Place = tuple[str, int]
"""File, relative to the corpus, and line."""


class Run(NamedTuple):
    """What one run over the corpus gave."""

    problems: list[LintProblem]
    unreadable: list[str]
    """Messages for the files that are not YAML."""
    crashes: list[str]
    files: int
    seconds: float
    """Processor time."""


class Score(NamedTuple):
    """Findings of one rule or severity, by judgement; `missed` are judged true and no longer found."""

    true: int = 0
    false: int = 0
    debatable: int = 0
    unjudged: int = 0
    missed: int = 0

    def add(self, field: str) -> "Score":
        """Return the score with one more in `field`."""
        return self._replace(**{field: getattr(self, field) + 1})


def measure(folder: Path, seed: int, crds: Path | None, listing: Path | None, mutations: int) -> int:
    """Lint the files of `folder`, print the figures of both halves; return 1 if one made lint fail, 2 without any."""
    repositories = sorted(path.name for path in folder.iterdir() if path.is_dir())
    if not repositories:
        print(f"{folder} has no folder of a repository: give the one into which the manifests were unpacked")
        return 2
    judgements = _read_judgements()
    run = run_files(sorted(folder.rglob("*")), folder, _load_crds(crds))
    first_half = split_repositories(repositories, seed)
    for title, chosen in (("open half", first_half), ("kept back", set(repositories) - first_half)):
        problems = [problem for problem in run.problems if _get_repository(problem.file) in chosen]
        known = {key: value for key, value in judgements.items() if _get_repository(key[0]) in chosen}
        print(f"\n{title} (seed {seed}): {len(chosen)} repositories")
        _print_scores(problems, known)
    _print_seeds(folder, seed)
    if mutations:
        texts = [path.read_text(errors="replace") for path in sorted(folder.rglob("*.yaml"))]
        failures = measure_mutations([text for text in texts if len(text) < _SEED_FILE_BYTES], mutations, seed)
        print(f"\n{mutations} mutations (seed {seed}), {len(failures)} made lint fail")
        run.crashes.extend(failures)
    if listing:
        listing.write_text("".join(_iter_unjudged_lines(run.problems, judgements)))
    print(f"\n{run.files} files, {run.files / run.seconds:.0f} files a second of processor time")
    print(f"{len(run.unreadable)} files are not YAML, {len(run.crashes)} made lint fail")
    print("".join(f"  {crash}\n" for crash in run.crashes), end="")
    return int(bool(run.crashes))


def split_repositories(repositories: Iterable[str], seed: int) -> set[str]:
    """Return the open half of the repositories."""
    shuffled = sorted(repositories)
    random.Random(seed).shuffle(shuffled)  # noqa: S311 - a reproducible split, no secret
    return set(shuffled[: (len(shuffled) + 1) // 2])


def run_files(paths: Iterable[Path], folder: Path, schemas: Schemas) -> Run:
    """Lint each manifest alone; the names of files are relative to `folder`."""
    problems: list[LintProblem] = []
    unreadable, crashes, count = [], [], 0
    begin = time.process_time()
    for path in paths:
        if path.suffix not in _ENDINGS or not path.is_file():
            continue
        count += 1
        name = str(path.relative_to(folder))
        try:
            documents, breaches = parse_manifests(path.read_bytes(), name)
            problems += lint(index_documents(documents), schemas, breaches)
        except SpecError as error:
            unreadable.append(str(error))
        except Exception as error:  # noqa: BLE001 - each failure is counted
            crashes.append(f"{name}: {type(error).__name__}: {error}")
    return Run(problems, unreadable, crashes, count, time.process_time() - begin)


def _load_crds(folder: Path | None) -> Schemas:
    paths = sorted(folder.rglob("*.yaml")) if folder else ()
    return index_crds((str(path), path.read_bytes()) for path in paths)


def _read_judgements() -> dict[tuple[str, int, str], str]:
    rows = (line.split("\t") for line in _INDEX.read_text().splitlines() if not line.startswith("#"))
    return {(file, int(line), rule): judgement for file, line, rule, judgement in rows}


def _get_repository(file: str) -> str:
    return file.partition("/")[0]


def _print_scores(problems: list[LintProblem], judgements: dict[tuple[str, int, str], str]) -> None:
    by_rule, by_severity = _score(problems, judgements)
    print(f"{'':34}   true  false debat. unjudg. missed precision recall")
    for name, score in [*sorted(by_rule.items()), *((f"= {name}", by_severity[name]) for name in _SEVERITIES)]:
        _print_score(name, score)
    whole = Score(*(sum(score[field] for score in by_severity.values()) for field in range(len(Score._fields))))
    missed = sum(score.missed for score in by_rule.values())
    _print_score("= all", whole._replace(missed=missed))


def _score(
    problems: list[LintProblem], judgements: dict[tuple[str, int, str], str]
) -> tuple[dict[str, Score], dict[str, Score]]:
    """Return the scores by rule and by severity. A true finding counts as found if its line has any finding."""
    by_rule: dict[str, Score] = {}
    by_severity = dict.fromkeys(_SEVERITIES, Score())
    fields = {"T": "true", "F": "false", "D": "debatable"}
    places = {(problem.file, problem.line) for problem in problems}
    for problem in problems:
        field = fields.get(judgements.get((problem.file, problem.line, problem.rule), ""), "unjudged")
        by_rule[problem.rule] = by_rule.get(problem.rule, Score()).add(field)
        by_severity[problem.severity] = by_severity[problem.severity].add(field)
    for (file, line, rule), judgement in judgements.items():
        if judgement == "T" and (file, line) not in places:
            by_rule[rule] = by_rule.get(rule, Score()).add("missed")
    return by_rule, by_severity


def _print_score(name: str, score: Score) -> None:
    judged, wanted = score.true + score.false, score.true + score.missed
    precision = f"{score.true / judged:.2f}" if judged else "-"
    recall = f"{score.true / wanted:.2f}" if wanted else "-"
    counts = "".join(f"{count:7}" for count in score)
    print(f"{name:34}{counts}   {precision:>7} {recall:>6}")


def _print_seeds(folder: Path, seed: int) -> None:
    """Print how many seeded mistakes are found; the sound files are those of the corpus without a finding."""
    schemas = index_crds()
    texts = [path.read_text(errors="replace") for path in sorted(folder.rglob("*.yaml"))]
    sound = [text for text in texts if len(text) < _SEED_FILE_BYTES and lint_seeds.is_sound(text, schemas)]
    outcomes = lint_seeds.measure_seeds(sound, seed, _EXAMPLE_CRD.read_bytes())
    hits, count = (sum(getattr(outcome, field) for outcome in outcomes.values()) for field in ("hits", "total"))
    print(f"\nseeded in {len(sound)} sound files (seed {seed}): {count} mistakes, recall {hits / count:.3f}")
    for rule, outcome in outcomes.items():
        if outcome.missed:
            variants = ", ".join(missed.variant for missed in outcome.missed)
            print(f"  {rule}: {outcome.hits} of {outcome.total}; missed: {variants}")


def _iter_unjudged_lines(problems: list[LintProblem], judgements: dict[tuple[str, int, str], str]) -> Iterator[str]:
    """Yield the findings that wait for a judgement, without what the rule says of itself."""
    for problem in problems:
        if (problem.file, problem.line, problem.rule) not in judgements:
            yield f"{problem.file}\t{problem.line}\t{problem.rule}\t{problem.severity}\t{problem.message}\n"
