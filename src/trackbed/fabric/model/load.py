"""Text to a Fabric and its lock, or everything that is wrong with the text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from trackbed.fabric.model.check import check_fabric
from trackbed.fabric.model.fabric import API_VERSION, Fabric, Lock
from trackbed.fabric.model.messages import translate_error
from trackbed.fabric.model.problems import Place, Problem, SpecError
from trackbed.fabric.model.source import YamlDocument, read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pydantic_core import ErrorDetails

_Document = TypeVar("_Document", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class LoadedFabric:
    """A Fabric, its lock (None where there is none yet), and the text they came from."""

    fabric: Fabric
    lock: Lock | None
    source: YamlDocument

    def locate(self, problems: Iterable[Problem]) -> list[Problem]:
        """Fill in the places of problems that know only their path."""
        return [_located(problem, self.source) for problem in problems]


def load_fabric(raw: bytes, file: str, lock: bytes | None = None, lock_file: str = "") -> LoadedFabric:
    """Read a Fabric; its lock may stand in the same file as a second document, or come as `lock`.

    Raises SpecError with every problem found. Nothing is opened here: the caller brings the bytes.
    """
    sources = read_yaml(raw, file) + (read_yaml(lock, lock_file) if lock is not None else [])
    broken = [problem for source in sources for problem in source.problems]
    if broken:
        raise SpecError(broken)
    fabric_source = _only("Fabric", sources, file)
    locks = [source for source in sources if _kind(source) == "FabricLock"]
    fabric = _validated(Fabric, fabric_source)
    found = _validated(Lock, locks[0]) if locks else None
    wrong = [_located(p, fabric_source) for p in check_fabric(fabric.spec)]
    if found is not None and found.fabric != fabric.metadata.name:
        message = f"this lock belongs to fabric {found.fabric!r}, not {fabric.metadata.name!r}"
        wrong.append(Problem("foreign-lock", message, ("fabric",), locks[0].find_place(("fabric",))))
    if found is not None:
        wrong += _lock_problems(found, locks[0])
    if wrong:
        raise SpecError(wrong)
    return LoadedFabric(fabric, found, fabric_source)


def load_lock(raw: bytes, file: str) -> Lock:
    """Read a lock alone. Raises SpecError with every problem found."""
    sources = read_yaml(raw, file)
    if broken := [problem for source in sources for problem in source.problems]:
        raise SpecError(broken)
    source = _only("FabricLock", sources, file)
    lock = _validated(Lock, source)
    if wrong := list(_lock_problems(lock, source)):
        raise SpecError(wrong)
    return lock


def build_fabric(document: Mapping[str, object]) -> Fabric:
    """A Fabric of plain values that nobody wrote down yet; SpecError (without places) where a field is wrong."""
    return _modelled(Fabric, document, None)


def build_fabric_from_resource(resource: Mapping[str, Any]) -> Fabric:
    """The Fabric that a custom resource is; SpecError (without places) where a field is wrong.

    An API server hands out numbers and booleans; the models read a file's text, and both must mean the same.
    """
    metadata = resource.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    wanted = {key: resource.get(key) for key in ("apiVersion", "kind")}
    fabric = build_fabric({**wanted, "metadata": {"name": name}, "spec": _as_text(resource.get("spec"))})
    if wrong := list(check_fabric(fabric.spec)):
        raise SpecError(wrong)
    return fabric


def _as_text(value: object) -> object:
    if isinstance(value, dict):
        return {key: _as_text(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_as_text(inner) for inner in value]
    return value if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _lock_problems(lock: Lock, source: YamlDocument) -> Iterable[Problem]:
    seen: dict[int, str] = {}
    for name, slot in lock.nodes.items():
        if slot < 0:
            yield Problem("bad-slot", f"slot {slot} of {name!r} is below 0", place=source.find_place(("nodes", name)))
        if seen.setdefault(slot, name) != name:
            message = f"{name!r} and {seen[slot]!r} both have slot {slot}; a slot belongs to one node"
            yield Problem("duplicate-slot", message, place=source.find_place(("nodes", name)))


def _kind(source: YamlDocument) -> object:
    return source.data.get("kind") if isinstance(source.data, dict) else None


def _only(kind: str, sources: list[YamlDocument], file: str) -> YamlDocument:
    found = [source for source in sources if _kind(source) == kind]
    if len(found) == 1:
        return found[0]
    if found:
        message = f"the input holds {len(found)} documents of kind {kind}, one is read"
        raise SpecError([Problem("two-fabrics", message, place=found[1].find_place(()))])
    documents = [source for source in sources if isinstance(source.data, dict) and _kind(source) != "FabricLock"]
    place = documents[0].find_place(("kind",)) if documents else Place(file, 1, 1)
    message = f"no document of kind {kind} here; it begins with apiVersion: {API_VERSION} and kind: {kind}"
    raise SpecError([Problem("no-fabric", message, place=place)])


def _validated(model: type[_Document], source: YamlDocument) -> _Document:
    return _modelled(model, source.data, source)


def _modelled(model: type[_Document], data: object, source: YamlDocument | None) -> _Document:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        details = [detail for detail in error.errors(include_url=False) if not _follows(detail)]
        raise SpecError([translate_error(detail, model, source) for detail in details]) from error


def _follows(detail: ErrorDetails) -> bool:
    """Whether an error only says that a list is empty once its wrong entries are gone."""
    return detail["type"] == "too_short" and bool(detail["input"])


def _located(problem: Problem, source: YamlDocument) -> Problem:
    if problem.place is not None:
        return problem
    return Problem(problem.code, problem.message, problem.path, source.find_place(problem.path), problem.severity)
