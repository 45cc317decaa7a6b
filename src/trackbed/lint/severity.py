"""Errors that are notes where they stand: text for Kustomize, objects of an older release, input of tests."""

import re
from pathlib import PurePath

from trackbed.lint.catalogue import load_rules
from trackbed.lint.finding import Breach
from trackbed.lint.kustomize import Builds
from trackbed.lint.schemas.removed import find_removal, is_for_older_release

_TEXTS = {"text-expected", "wrong-type"}
"""Rules that find values of other types where a text is expected."""
_YAML_1_1_BOOLEAN = re.compile(r"(?:y|yes|n|no|on|off)\s*(?:#.*)?", re.IGNORECASE)
_FIXTURES = frozenset({"testdata", "fixtures", "__fixtures__"})
"""Names of folders with input of tests: Go's, and those of most other languages."""
_ASSERTION = re.compile(r"\d+-(?:assert|errors?)\b.*\.ya?ml")
"""Matches names of KUTTL's files with parts of the objects that a test waits for."""


def weigh(breach: Breach, builds: Builds, release: int | None) -> Breach:
    """Return an error as a note where no API server gets the object as it stands. Advice stays what it is.

    `release` is the cluster's minor number, None if unknown.
    """
    severity = breach.severity or load_rules()[breach.rule].severity
    is_kustomize_text = _is_kustomize_text(breach, builds) or _is_name_of_patch(breach, builds)
    is_note = is_kustomize_text or _is_for_older_release(breach, release) or _is_test_input(breach)
    return breach._replace(severity="note") if severity == "error" and is_note else breach


def _is_kustomize_text(breach: Breach, builds: Builds) -> bool:
    """Return whether a boolean of YAML 1.1 alone, such as `off`, stands in a file of Kustomize, which reads a text."""
    if breach.rule not in _TEXTS or breach.tree.source.file not in builds.roots:
        return False
    place = breach.tree.find_place(breach.path)
    written = breach.tree.lines[place.line - 1 : place.line]
    return any(_YAML_1_1_BOOLEAN.fullmatch(line[place.column - 1 :]) for line in written)


def _is_name_of_patch(breach: Breach, builds: Builds) -> bool:
    """Return whether the value is the name in a file that Kustomize completes, which makes a text of it."""
    is_name = breach.rule in _TEXTS and breach.path == ("metadata", "name")
    return is_name and breach.tree.source.file in builds.unfinished


def _is_for_older_release(breach: Breach, release: int | None) -> bool:
    """Return whether the version was removed after the release that the file or the cluster is of."""
    if breach.rule != "unknown-kind":
        return False
    removal = find_removal(str(breach.tree.get("apiVersion")), str(breach.tree.get("kind")))
    return removal is not None and (
        is_for_older_release(breach.tree.source.file, removal) or (release is not None and release < removal)
    )


def _is_test_input(breach: Breach) -> bool:
    """Return whether the file is input of tests, which may be wrong on purpose."""
    path = PurePath(breach.tree.source.file)
    folders = {part.lower() for part in path.parts[:-1]}
    return not _FIXTURES.isdisjoint(folders) or _ASSERTION.fullmatch(path.name) is not None
