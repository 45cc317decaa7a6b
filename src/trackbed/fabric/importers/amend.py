"""Addition of fields to an imported Fabric that no address tells: names, VFs, the stack."""

from collections.abc import Mapping
from dataclasses import replace

from trackbed.fabric.importers.result import ImportResult
from trackbed.fabric.model.check import check_fabric
from trackbed.fabric.model.load import build_fabric
from trackbed.fabric.model.problems import Problem, SpecError


def amend_spec(imported: ImportResult, fields: Mapping[str, object]) -> ImportResult:
    """Return the import with fields of `spec` replaced, those with None removed; without them if they are invalid."""
    spec = {**imported.document["spec"], **fields}
    document = {**imported.document, "spec": {key: value for key, value in spec.items() if value is not None}}
    try:
        fabric = build_fabric(document)
        problems: list[Problem] = [problem for problem in check_fabric(fabric.spec) if problem.severity == "error"]
    except SpecError as error:
        problems = list(error.problems)
    if problems:
        return replace(imported, problems=(*problems, *imported.problems))
    return replace(imported, fabric=fabric, document=document)
