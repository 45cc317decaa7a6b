"""Mutations of manifests: whatever a file holds, lint ends, and within a second."""

import random
import time
from collections.abc import Callable

from trackbed.fabric.model.problems import SpecError
from trackbed.lint.corpus import index_documents
from trackbed.lint.manifests import parse_manifests
from trackbed.lint.run import lint
from trackbed.lint.schemas.crds import index_crds

_TOKENS = (
    "{{ .Values.a }}",
    "[",
    "]",
    "{",
    "}",
    "null",
    "1e400",
    "-1",
    "0x",
    "\t",
    "&a ",
    "*a",
    "<<: ",
    "''",
    '"',
    ": ",
)
_MANY_TOKENS = (
    ".inf",
    ".nan",
    "99999999999999999999",
    "${A}",
    "...",
    "---",
    "- ",
    "?",
    "!!binary ",
    "\u2028",
    "# trackbed: ignore",
)
_SLOW_SECONDS = 5.0


def measure_mutations(texts: list[str], count: int, seed: int) -> list[str]:
    """Lint mutations of the texts; return a line for each on which lint failed or was slow."""
    generator = random.Random(seed)  # noqa: S311 - a reproducible choice, no secret
    schemas = index_crds()
    failures = []
    for number in range(count):
        text = generator.choice(texts)
        for _ in range(generator.randint(1, 4)):
            text = generator.choice(_MUTATIONS)(text, generator)
        begin = time.process_time()
        try:
            documents, breaches = parse_manifests(text.encode("utf-8", "surrogatepass"), "mutation.yaml")
            lint(index_documents(documents), schemas, breaches)
        except SpecError:
            pass
        except Exception as error:  # noqa: BLE001 - each failure is counted
            failures.append(f"mutation {number}: {type(error).__name__}: {str(error)[:200]}")
        if time.process_time() - begin > _SLOW_SECONDS:
            failures.append(f"mutation {number}: took {time.process_time() - begin:.1f} s")
    return failures


def _change_lines(change: Callable[[list[str], int, random.Random], None]) -> Callable[[str, random.Random], str]:
    def mutate(text: str, generator: random.Random) -> str:
        lines = text.split("\n")
        change(lines, generator.randrange(len(lines)), generator)
        return "\n".join(lines)

    return mutate


def _drop_line(lines: list[str], number: int, _: random.Random) -> None:
    del lines[number]


def _repeat_line(lines: list[str], number: int, _: random.Random) -> None:
    lines.insert(number, lines[number])


def _indent_line(lines: list[str], number: int, generator: random.Random) -> None:
    line = lines[number]
    lines[number] = " " * generator.choice((1, 2, 4)) + line if generator.random() < 0.5 else line[2:]  # noqa: PLR2004 - half of them


def _swap_lines(lines: list[str], number: int, generator: random.Random) -> None:
    other = generator.randrange(len(lines))
    lines[number], lines[other] = lines[other], lines[number]


def _replace_value(lines: list[str], number: int, generator: random.Random) -> None:
    name, colon, _ = lines[number].partition(":")
    if colon:
        lines[number] = f"{name}: {generator.choice(_TOKENS + _MANY_TOKENS)}"


def _insert_token(text: str, generator: random.Random) -> str:
    offset = generator.randrange(len(text) + 1)
    return text[:offset] + generator.choice(_TOKENS + _MANY_TOKENS) + text[offset:]


def _drop_character(text: str, generator: random.Random) -> str:
    offset = generator.randrange(len(text) + 1)
    return text[:offset] + text[offset + 1 :]


def _cut(text: str, generator: random.Random) -> str:
    return text[: generator.randrange(len(text) + 1)]


_MUTATIONS: tuple[Callable[[str, random.Random], str], ...] = (
    *(_change_lines(change) for change in (_drop_line, _repeat_line, _indent_line, _swap_lines, _replace_value)),
    _insert_token,
    _drop_character,
    _cut,
)
