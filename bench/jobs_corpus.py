"""`scripts/bench jobs DIR`: `job patch` on every job file of a folder, and the same files as JSON, for three stacks.

For each file: patching twice is patching once; each line of the file is still there, or changed in a known way; the
result has the values of the file and, besides, only fields that rails need; JSON stays JSON. PyYAML is the judge.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.stacks.sites import alike, planned
from trackbed.cluster.jobs.editing.job_file import JobFile
from trackbed.cluster.jobs.jobs import inject_into_jobs
from trackbed.cluster.jobs.requirements import PodRequirements, build_requirements
from trackbed.cluster.jobs.template import NotAJobError
from trackbed.cluster.stacks import load_stack
from trackbed.fabric.model.problems import SpecError

STACKS = ("network-operator-sriov", "dranet", "aws-efa")
"""Networks and devices; claims; huge pages and host folders."""
_JSON_INDENTS = (None, 2, "\t")
_ADDED_FIELD = re.compile(
    r"annotations|resources|limits|requests|claims|env|volumeMounts|volumes|securityContext|capabilities|add"
    r"|nodeSelector|resourceClaims|runtimePatches|resourcesPerNode|trainer|metadata|privileged|hostNetwork|dnsPolicy|command|args"
)
_EMPTY = re.compile(r"(?:\{\s*\}|\[\s*\]|null|~)")


def measure(folder: Path) -> int:
    """Patch all files below the folder and print the counts; return 1 if a check failed, else 0."""
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".yaml", ".yml", ".json") and path.is_file())
    counts: Counter[str] = Counter(files=len(files))
    begun, failures = time.perf_counter(), []
    for stack in STACKS:
        requirements = build_requirements(load_stack(stack), planned(stack, alike(4, 8), 8))
        print(f"{stack} ...", flush=True)
        for path in files:
            for title, raw in _list_variants(path.read_bytes()):
                failures += [
                    f"{path.relative_to(folder)} ({title}, {stack}): {failure}"
                    for failure in _check_file(raw, requirements, counts, title)
                ]
    counts["seconds"] = round(time.perf_counter() - begun)
    print("\n".join(failures))
    print("\n".join(f"{count:>8}  {title}" for title, count in counts.items()))
    return 1 if failures else 0


def _list_variants(raw: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the file, and its documents as JSON if it has only one."""
    yield "as it is", raw
    try:
        documents = [document for document in yaml.load_all(raw, Loader=yaml.CSafeLoader) if document is not None]
        texts = [json.dumps(document, indent=indent) for document in documents[:1] for indent in _JSON_INDENTS]
    except (yaml.YAMLError, ValueError, TypeError):
        return
    if len(documents) == 1:
        for indent, text in zip(_JSON_INDENTS, texts, strict=True):
            yield f"JSON, indent {indent!r}", text.encode()


def _check_file(raw: bytes, requirements: PodRequirements, counts: Counter[str], title: str) -> Iterator[str]:
    try:
        job_file = JobFile(raw, "file")
        jobs = inject_into_jobs(job_file.documents, requirements)
    except (SpecError, NotAJobError) as error:
        kind = "unreadable" if isinstance(error, SpecError) else "without a job"
        counts[f"{kind} ({title[:4]})"] += 1
        return
    counts[f"runs ({title[:4]})"] += 1
    counts["jobs"] += len(jobs)
    codes = [note.code for job in jobs for note in job.notes]
    counts["pods with hostNetwork, left alone"] += codes.count("host-network-with-networks")
    counts["GPUs where no pod spec was found"] += codes.count("pod-of-unknown-kind")
    try:
        text = job_file.render()
    except SpecError as error:
        yield f"cannot be edited: {error}"
        return
    before = raw.decode()
    yield from _check_twice(text, requirements)
    yield from _check_values(before, text, is_json=title.startswith("JSON"))
    for kind, line in _classify_changes(before, text):
        counts[f"line: {kind}"] += 1
        if kind == "unexplained":
            yield f"line changed: {line}"


def _check_twice(text: str, requirements: PodRequirements) -> Iterator[str]:
    again = JobFile(text.encode(), "file")
    inject_into_jobs(again.documents, requirements)
    if again.render() != text:
        yield "patching twice changes the file"


def _check_values(before: str, after: str, *, is_json: bool) -> Iterator[str]:
    if is_json:
        try:
            values: list[Any] = [[json.loads(before)], [json.loads(after)]]
        except ValueError as error:
            yield f"not JSON: {error}"
            return
    else:
        values = [list(yaml.load_all(text, Loader=yaml.CSafeLoader)) for text in (before, after)]
    yield from _compare(values[0], values[1], "")


def _compare(before: Any, after: Any, path: str) -> Iterator[str]:  # noqa: ANN401 - YAML holds anything
    """Yield what was removed, changed or added besides fields that rails need."""
    if isinstance(before, dict) and isinstance(after, dict):
        yield from (f"{path}.{key} was removed" for key in before if key not in after)
        yield from (
            f"{path}.{key} was added" for key in after if key not in before and not _ADDED_FIELD.search(f"{path}.{key}")
        )
        for key in before.keys() & after.keys():
            yield from _compare(before[key], after[key], f"{path}.{key}")
    elif isinstance(before, list) and isinstance(after, list):
        remainder = iter(enumerate(after))
        for index, item in enumerate(before):
            if all(any(_compare(item, other, path)) for _, other in remainder):
                yield f"{path}[{index}] was removed or changed"
        if len(after) > len(before) and not _ADDED_FIELD.search(path):
            yield f"{path} has new items"
    elif before != after and before is not None and not path.endswith("k8s.v1.cni.cncf.io/networks"):
        yield f"{path} was changed from {before!r} to {after!r}"


def _find_annotation_lines(text: str) -> set[int]:
    """Return the numbers of the lines, from 0, that hold a value of the networks annotation."""
    lines: set[int] = set()
    nodes = list(yaml.compose_all(text, Loader=yaml.CBaseLoader))
    while nodes:
        node = nodes.pop()
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                nodes.append(value)
                if key.value == "k8s.v1.cni.cncf.io/networks":
                    lines.update(range(key.start_mark.line, value.end_mark.line + 1))
        elif isinstance(node, yaml.SequenceNode):
            nodes += node.value
    return lines


def _classify_changes(before: str, after: str) -> Iterator[tuple[str, str]]:
    """Yield each line that is gone, with the kind of change."""
    annotation_lines = _find_annotation_lines(before)
    old, new = (text.replace("\r\n", "\n").removesuffix("\n").split("\n") for text in (before, after))
    if before.count("\r\n") and after.count("\r\n") != after.count("\n"):
        yield "unexplained", "line ends"
    for tag, first, last, new_first, new_last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        for number in range(first, last) if tag in ("replace", "delete") else ():
            kinds = [_classify_line(old[number], line) for line in new[new_first:new_last]]
            kinds += ["networks annotation"] if number in annotation_lines else []
            kinds += ["order of alike lines"] if _is_embedded(old, new, annotation_lines) else []
            yield next((kind for kind in kinds if kind), "unexplained"), old[number]


def _is_embedded(old: list[str], new: list[str], ignored_lines: set[int]) -> bool:
    """Return whether the old lines are in the new ones in their order, each as it was or changed in a known way."""
    lines = iter(new)
    return all(
        number in ignored_lines or any(line == other or _classify_line(line, other) for other in lines)
        for number, line in enumerate(old)
    )


def _classify_line(line: str, candidate: str) -> str | None:
    if line.rstrip() + "," == candidate.rstrip():
        return "gains a comma"
    emptied = _EMPTY.sub("", line).rstrip()
    if emptied != line.rstrip() and candidate.startswith(emptied.rstrip("},] ")):
        return "empty value gains a member"
    if re.search(r"\*\w", line) and candidate.startswith(line.partition("*")[0].rstrip(" <:")):
        return "alias is split"
    if re.search(r"[|>][0-9+]*$", line) and re.sub(r"\+?$", "-", line) == candidate:
        return "block scalar without line end at the end of the file"
    return "flow collection gains a member" if re.search(r"[\[{]", line) and _is_within(line, candidate) else None


def _is_within(line: str, candidate: str) -> bool:
    characters = iter(candidate)
    return all(character in characters for character in line)
