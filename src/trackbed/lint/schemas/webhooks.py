"""Required fields that a mutating webhook of the kind's project fills in before the API server validates the object."""

from typing import Any

from trackbed.fabric.model.problems import Path
from trackbed.lint.schemas.crds import KindVersion

_DEFAULTED: dict[tuple[str, str], frozenset[str]] = {
    # jobset pkg/webhooks/jobset_webhook.go, Default: failurePolicyRule0, failurePolicyRule1 ...
    ("jobset.x-k8s.io", "JobSet"): frozenset({"spec.failurePolicy.rules.name"}),
}
"""Group and kind -> required fields, without indexes, that may be missing."""


def get_defaulted_fields(group: str, kind: str) -> frozenset[str]:
    """Return the required fields of a kind that may be missing, as paths without indexes."""
    return _DEFAULTED.get((group, kind), frozenset())


def is_set_by_webhook(kind_version: KindVersion, path: Path, error_kind: Any) -> bool:  # noqa: ANN401 - a Rust enum
    """Return whether an error of the schema is a missing field that a webhook fills in."""
    fields = get_defaulted_fields(kind_version.group, kind_version.kind)
    if not fields or type(error_kind).__name__ != "Required":
        return False
    names = [part for part in path if isinstance(part, str)]
    return ".".join([*names, str(error_kind.as_dict()["property"])]) in fields
