"""Every cause is named by what its program says, and by nothing of another program."""

import re

import pytest

from tests.cluster.causes.messages import NESTED
from trackbed.cluster.causes.catalogue import diagnose, load_causes, load_programs
from trackbed.doctor.catalogue import load_catalogue
from trackbed.lint.catalogue import load_rules

CAUSES = load_causes()
WITH_TEXT = [cause.id for cause in CAUSES.values() if cause.texts]
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


@pytest.mark.parametrize("cause", WITH_TEXT)
def test_the_message_of_a_program_is_named_with_its_cause(cause: str) -> None:
    named = diagnose(CAUSES[cause].example)
    assert named is not None
    assert named.id == cause
    assert "<" not in named.title


def test_no_id_is_used_twice_nor_by_doctor_or_lint() -> None:
    assert sum(len(program.causes) for program in load_programs()) == len(CAUSES)
    assert set(CAUSES) & {*load_catalogue(), *load_rules()} == set()


@pytest.mark.parametrize("cause", WITH_TEXT)
def test_every_text_has_the_names_that_the_title_shows(cause: str) -> None:
    shown = set(_PLACEHOLDER.findall(CAUSES[cause].title))
    assert [text for text in CAUSES[cause].texts if shown - set(re.compile(text).groupindex)] == []


@pytest.mark.parametrize("cause", CAUSES)
def test_cause_and_fix_are_sentences_and_a_title_is_none(cause: str) -> None:
    entry = CAUSES[cause]
    assert entry.cause.endswith(".")
    assert entry.fix.endswith((".", ".'"))
    assert not entry.title.endswith(".")
    assert len(entry.title) <= 100


@pytest.mark.parametrize(("message", "cause"), NESTED.items())
def test_of_a_message_in_a_message_the_innermost_is_named(message: str, cause: str) -> None:
    named = diagnose(message)
    assert (named.id if named else "") == cause


def test_a_long_message_takes_no_time() -> None:
    assert diagnose("Multus: " + "error waiting for pod: " * 4000) is None


def test_only_the_end_of_a_long_message_is_read() -> None:
    example = CAUSES[WITH_TEXT[0]].example
    assert diagnose("x" * 1_000_000 + example) == diagnose(example)
    assert diagnose(example + "x" * 10_000) is None
