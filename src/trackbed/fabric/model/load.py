"""Loading of a Fabric and its lock from text; all problems of the text are reported together."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from trackbed.fabric.model.check import check_fabric
from trackbed.fabric.model.fabric import API_VERSION, Fabric, Lock
from trackbed.fabric.model.messages import translate_error
from trackbed.fabric.model.problems import Place, Problem, SpecError
from trackbed.fabric.model.source import YamlDocument, read_yaml

_Document = TypeVar("_Document", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class LoadedFabric:
    """A Fabric, its lock (None if there is none yet), and the document it was read from."""

    fabric: Fabric
    lock: Lock | None
    source: YamlDocument

    def locate(self, problems: Iterable[Problem]) -> list[Problem]:
        """Return the problems, each with the place of its path in the document."""
        return [_add_place(problem, self.source) for problem in problems]


def load_fabric(content: bytes, file: str, lock_content: bytes | None = None, lock_file: str = "") -> LoadedFabric:
    """Parse a Fabric; its lock may be a second document in the same file, or be passed as `lock_content`.

    Raises SpecError with all problems. No file is opened here: the caller passes the content.
    """
    sources = read_yaml(content, file) + (read_yaml(lock_content, lock_file) if lock_content is not None else [])
    yaml_problems = [problem for source in sources for problem in source.problems]
    if yaml_problems:
        raise SpecError(yaml_problems)
    fabric_source = _select_document("Fabric", sources, file)
    lock_documents = [source for source in sources if _get_kind(source) == "FabricLock"]
    fabric = _validate(Fabric, fabric_source)
    lock_model = _validate(Lock, lock_documents[0]) if lock_documents else None
    problems = [_add_place(problem, fabric_source) for problem in check_fabric(fabric.spec)]
    if lock_model is not None and lock_model.fabric != fabric.metadata.name:
        message = f"this lock belongs to fabric {lock_model.fabric!r}, not {fabric.metadata.name!r}; "
        message += "a lock is read from beside its Fabric, so each Fabric needs a folder of its own"
        problems.append(Problem("foreign-lock", message, ("fabric",), lock_documents[0].find_place(("fabric",))))
    if lock_model is not None:
        problems += _check_lock(lock_model, lock_documents[0])
    if problems:
        raise SpecError(problems)
    return LoadedFabric(fabric, lock_model, fabric_source)


def load_document(source: YamlDocument) -> Fabric:
    """Build a Fabric from a document of kind Fabric. Raises SpecError with all problems and their places."""
    if source.problems:
        raise SpecError(source.problems)
    fabric = _validate(Fabric, source)
    if problems := [_add_place(problem, source) for problem in check_fabric(fabric.spec)]:
        raise SpecError(problems)
    return fabric


def load_lock(content: bytes, file: str) -> Lock:
    """Parse a lock. Raises SpecError with all problems."""
    sources = read_yaml(content, file)
    if yaml_problems := [problem for source in sources for problem in source.problems]:
        raise SpecError(yaml_problems)
    source = _select_document("FabricLock", sources, file)
    lock = _validate(Lock, source)
    if problems := list(_check_lock(lock, source)):
        raise SpecError(problems)
    return lock


def build_fabric(document: Mapping[str, object]) -> Fabric:
    """Build a Fabric from plain values; SpecError, without places, if a field is invalid."""
    return _validate_values(Fabric, document, None)


def build_fabric_from_resource(resource: Mapping[str, Any]) -> Fabric:
    """Build a Fabric from a custom resource; SpecError, without places, if a field is invalid.

    The API server returns numbers and booleans, while a file has text only, so they are converted to text.
    """
    metadata = resource.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    header = {key: resource.get(key) for key in ("apiVersion", "kind")}
    try:
        spec = _to_text(resource.get("spec"))
    except RecursionError as error:
        raise SpecError([Problem("too-deep", "spec is nested too deeply to be read", ("spec",))]) from error
    fabric = build_fabric({**header, "metadata": {"name": name}, "spec": spec})
    if problems := list(check_fabric(fabric.spec)):
        raise SpecError(problems)
    return fabric


def _to_text(value: object) -> object:
    if isinstance(value, dict):
        return {key: _to_text(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_to_text(inner) for inner in value]
    return value if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _check_lock(lock: Lock, source: YamlDocument) -> Iterable[Problem]:
    owners: dict[int, str] = {}
    for name, slot in lock.nodes.items():
        if slot < 0:
            yield Problem("bad-slot", f"slot {slot} of {name!r} is below 0", place=source.find_place(("nodes", name)))
        if owners.setdefault(slot, name) != name:
            message = f"{name!r} and {owners[slot]!r} both have slot {slot}; a slot belongs to one node"
            yield Problem("duplicate-slot", message, place=source.find_place(("nodes", name)))


def _get_kind(source: YamlDocument) -> object:
    return source.data.get("kind") if isinstance(source.data, dict) else None


def _select_document(kind: str, sources: list[YamlDocument], file: str) -> YamlDocument:
    matching = [source for source in sources if _get_kind(source) == kind]
    if len(matching) == 1:
        return matching[0]
    if matching:
        message = f"the input holds {len(matching)} documents of kind {kind}, one is read"
        raise SpecError([Problem("two-fabrics", message, place=matching[1].find_place(()))])
    documents = [source for source in sources if isinstance(source.data, dict) and _get_kind(source) != "FabricLock"]
    place = documents[0].find_place(("kind",)) if documents else Place(file, 1, 1)
    message = f"no document of kind {kind} here; it begins with apiVersion: {API_VERSION} and kind: {kind}"
    raise SpecError([Problem("no-fabric", message, place=place)])


def _validate(model: type[_Document], source: YamlDocument) -> _Document:
    return _validate_values(model, source.data, source)


def _validate_values(model: type[_Document], data: object, source: YamlDocument | None) -> _Document:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        details = [detail for detail in error.errors(include_url=False) if not _is_consequence(detail)]
        raise SpecError([translate_error(detail, model, source) for detail in details]) from error


def _is_consequence(detail: ErrorDetails) -> bool:
    """Return whether an error only reports a list as empty because its invalid entries were removed."""
    return detail["type"] == "too_short" and bool(detail["input"])


def _add_place(problem: Problem, source: YamlDocument) -> Problem:
    if problem.place is not None:
        return problem
    return Problem(problem.code, problem.message, problem.path, source.find_place(problem.path), problem.severity)
