"""Seeded defects: each rule's mistake, made anew in sound files, and random mistakes in fields of sound files.

A mistake of a rule is transplanted: behind the documents of a sound file, as JSON, as an item of a List, or
into the pod template of another kind. A mistake in a field is a renamed, removed, repeated or mistyped field.
"""

import json
import random
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, NamedTuple

import yaml

from trackbed.fabric.model.problems import SpecError
from trackbed.lint.catalogue import Rule, load_rules
from trackbed.lint.corpus import index_documents
from trackbed.lint.finding import LintProblem
from trackbed.lint.manifests import parse_manifests
from trackbed.lint.run import lint
from trackbed.lint.schemas.crds import Schemas, index_crds

_TEXT_ONLY = {"duplicate-key", "template", "ignore-incomplete", "ignore-unused", "fabric-invalid", "fabric-doubtful"}
"""Rules about the text of a document, or about documents that no API server holds."""
_Object = dict[str, Any]


class Seed(NamedTuple):
    """A sound file with a mistake."""

    rules: frozenset[str]
    """Rules that may report the mistake."""
    text: str
    variant: str
    """How the mistake was made."""
    nodes: int | None = None


class Outcome(NamedTuple):
    """How many mistakes of one rule or variant were found."""

    hits: int
    total: int
    missed: list[Seed]


def measure_seeds(sound: list[str], seed: int, example_crds: bytes, per_rule: int = 3) -> dict[str, Outcome]:
    """Make mistakes in sound files and return the outcomes by rule."""
    generator = random.Random(seed)  # noqa: S311 - a reproducible choice, no secret
    schemas = index_crds([("example.yaml", example_crds)])
    outcomes: dict[str, Outcome] = {}
    for rule in load_rules().values():
        seeds = list(_seed_rule(rule, sound, generator, per_rule))
        outcomes[rule.id] = _judge(seeds, schemas)
    for variant, mutate in _FIELD_MISTAKES.items():
        outcomes[f"({variant})"] = _judge(list(_seed_fields(variant, mutate, sound, generator)), schemas)
    return outcomes


def _judge(seeds: list[Seed], schemas: Schemas) -> Outcome:
    missed = [seed for seed in seeds if not seed.rules & {problem.rule for problem in _lint(seed, schemas)}]
    return Outcome(len(seeds) - len(missed), len(seeds), missed)


def _lint(seed: Seed, schemas: Schemas) -> tuple[LintProblem, ...]:
    documents, breaches = parse_manifests(seed.text.encode(), "seed.yaml")
    return lint(index_documents(documents, seed.nodes), schemas, breaches)


def _seed_rule(rule: Rule, sound: list[str], generator: random.Random, count: int) -> Iterator[Seed]:
    """Yield sound files that hold the mistake of a rule, each in another variant."""
    variants: list[tuple[str, Callable[[list[_Object]], Any] | None]] = [("behind a sound file", None)]
    if rule.id not in _TEXT_ONLY and rule.id != "not-a-manifest":
        variants += [("as JSON", _keep), ("in a List", _wrap_list)]
        if any(_get_template(doc) for doc in _load(rule.bad)):
            variants += [(f"in a {kind}", wrap) for kind, wrap in _TEMPLATES.items() if kind != _get_kind(rule)]
    else:
        variants += [("with CRLF", None), ("with comments", None)]
    for variant, change in variants[:1] + generator.sample(variants[1:], min(len(variants) - 1, max(count - 1, 2))):
        text = _change_text(rule.bad, variant) if change is None else json.dumps(change(_load(rule.bad)), indent=1)
        if change is _keep:
            text = "\n---\n".join(json.dumps(doc) for doc in _load(rule.bad))
        elif change is not None and change is not _wrap_list:
            text = "---\n".join(yaml.safe_dump(doc, sort_keys=False) for doc in change(_load(rule.bad)))
        before = "" if rule.id.startswith("ignore") or variant == "with CRLF" else generator.choice(sound)
        yield Seed(frozenset({rule.id}), _join(before, text), variant, rule.nodes)


def _keep(docs: list[_Object]) -> list[_Object]:
    return docs


def _wrap_list(docs: list[_Object]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": docs}


def _change_text(text: str, variant: str) -> str:
    if variant == "with CRLF":
        return text.replace("\n", "\r\n")
    return re.sub(r"^(?=metadata)", "# Seeded.\n", text, flags=re.MULTILINE) if variant == "with comments" else text


def _join(before: str, text: str) -> str:
    return f"{before.rstrip()}\n---\n{text}" if before else text


def _load(text: str) -> list[_Object]:
    try:
        return [doc for doc in yaml.safe_load_all(text) if isinstance(doc, dict) and doc]
    except yaml.YAMLError:
        return []


def _get_kind(rule: Rule) -> str:
    return next((str(doc.get("kind")) for doc in _load(rule.bad) if _get_template(doc)), "")


def _get_template(doc: _Object) -> dict[str, Any] | None:
    """Return the pod template of a Pod or of a Job."""
    if doc.get("kind") == "Pod":
        return {"metadata": doc.get("metadata", {}), "spec": doc.get("spec")}
    return doc["spec"]["template"] if doc.get("kind") == "Job" and doc.get("apiVersion") == "batch/v1" else None


def _transplant(
    api_version: str, kind: str, wrap: Callable[[_Object], _Object]
) -> Callable[[list[_Object]], list[_Object]]:
    def change(docs: list[_Object]) -> list[_Object]:
        changed = []
        for doc in docs:
            template = _get_template(doc)
            if template is None:
                changed.append(doc)
                continue
            metadata = {key: value for key, value in doc.get("metadata", {}).items() if key != "annotations"}
            inner = {key: value for key, value in (template.get("metadata") or {}).items() if key != "namespace"}
            spec = wrap(deepcopy({**template, "metadata": inner}))
            changed.append({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})
        return changed

    return change


_TEMPLATES = {
    "Job": _transplant("batch/v1", "Job", lambda template: {"template": template}),
    "PyTorchJob": _transplant(
        "kubeflow.org/v1", "PyTorchJob", lambda template: {"pytorchReplicaSpecs": {"Worker": {"template": template}}}
    ),
    "JobSet": _transplant(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        lambda template: {"replicatedJobs": [{"name": "a", "template": {"spec": {"template": template}}}]},
    ),
    "LeaderWorkerSet": _transplant(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        lambda template: {"leaderWorkerTemplate": {"size": 2, "workerTemplate": template}},
    ),
}


def _seed_fields(
    variant: str, mutate: Callable[[_Object, random.Random], frozenset[str]], sound: list[str], generator: random.Random
) -> Iterator[Seed]:
    """Yield sound files with one field that is wrong."""
    files = generator.sample(sound, len(sound))
    count = 0
    for text in files:
        docs = _load(text)
        if not docs:
            continue
        rules = mutate(docs[0], generator)
        if rules:
            yield Seed(rules, "---\n".join(yaml.safe_dump(doc, sort_keys=False) for doc in docs), variant)
            count += 1
        if count == _FIELD_SEEDS:
            return


_FIELD_SEEDS = 12


def _find_containers(doc: _Object) -> list[dict[str, Any]]:
    """Return the containers of a kind that Kubernetes itself defines."""
    if doc.get("apiVersion") not in {"v1", "batch/v1", "apps/v1"} or not isinstance(doc.get("spec"), dict):
        return []
    spec = doc["spec"] if doc.get("kind") == "Pod" else (doc["spec"].get("template") or {}).get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    return [container for container in containers or [] if isinstance(container, dict)]


def _rename_field(doc: _Object, generator: random.Random) -> frozenset[str]:
    containers = [container for container in _find_containers(doc) if set(container) - {"name", "image"}]
    if not containers:
        return frozenset()
    container = generator.choice(containers)
    field = generator.choice(sorted(set(container) - {"name", "image"}))
    container[field + "s"] = container.pop(field)
    return frozenset({"unknown-field"})


def _remove_name(doc: _Object, generator: random.Random) -> frozenset[str]:
    containers = _find_containers(doc)
    if containers:
        generator.choice(containers).pop("name", None)
    return frozenset({"missing-field"} if containers else ())


def _remove_image(doc: _Object, generator: random.Random) -> frozenset[str]:
    containers = [container for container in _find_containers(doc) if container.get("image")]
    if doc.get("apiVersion") == "apps/v1" or not containers:
        return frozenset()
    generator.choice(containers).pop("image")
    return frozenset({"image-missing"})


def _mistype_environment(doc: _Object, generator: random.Random) -> frozenset[str]:
    containers = _find_containers(doc)
    if containers:
        generator.choice(containers).setdefault("env", []).append({"name": "SEEDED", "value": 8})
    return frozenset({"text-expected"} if containers else ())


def _mistype_command(doc: _Object, generator: random.Random) -> frozenset[str]:
    containers = _find_containers(doc)
    if containers:
        generator.choice(containers)["command"] = "run"
    return frozenset({"wrong-type"} if containers else ())


def _break_request(doc: _Object, generator: random.Random) -> frozenset[str]:
    containers = _find_containers(doc)
    if containers:
        resources = {"limits": {"nvidia.com/gpu": 8}, "requests": {"nvidia.com/gpu": 4}}
        generator.choice(containers)["resources"] = resources
    return frozenset({"request-differs"} if containers else ())


def _mistype_label(doc: _Object, _: random.Random) -> frozenset[str]:
    metadata = doc.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("labels", {}), dict):
        return frozenset()
    metadata["labels"] = {**metadata.get("labels", {}), "seeded": True}
    return frozenset({"text-expected"})


_FIELD_MISTAKES: dict[str, Callable[[_Object, random.Random], frozenset[str]]] = {
    "renamed field": _rename_field,
    "removed name": _remove_name,
    "removed image": _remove_image,
    "number in env": _mistype_environment,
    "text for a list": _mistype_command,
    "request unlike limit": _break_request,
    "boolean label": _mistype_label,
}


def is_sound(text: str, schemas: Schemas) -> bool:
    """Return whether a file has documents and no error or warning."""
    try:
        documents, breaches = parse_manifests(text.encode(), "a.yaml")
        problems = lint(index_documents(documents), schemas, breaches)
    except SpecError:
        return False
    return bool(documents) and all(problem.severity == "note" for problem in problems)
