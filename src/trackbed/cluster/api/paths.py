"""Paths of an API server that contain names: a name is one segment, whatever its characters.

The API server splits a path after decoding it, so a quoted slash separates segments too. Names with a slash or a
percent sign are therefore refused, as client-go does (k8s.io/apimachinery, pkg/api/validation/path/name.go,
IsValidPathSegmentName); no object can have them.
"""

from http import HTTPStatus
from urllib.parse import quote

from trackbed.cluster.api.errors import ApiRefusedError


def join_path(base: str, *names: str) -> str:
    """Return the path `base`, extended by one quoted segment for each name.

    Raises ApiRefusedError, as the server would refuse it, for a name that cannot be a segment.
    """
    for name in names:
        if name in {"", ".", ".."} or "/" in name or "%" in name:
            raise ApiRefusedError(
                HTTPStatus.BAD_REQUEST, "BadRequest", f"{name!r} cannot be the name of an object", base
            )
    return "/".join((base, *(quote(name, safe="") for name in names)))
