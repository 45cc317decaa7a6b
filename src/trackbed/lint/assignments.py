"""Variables of NCCL, UCX and MPI that a text sets: a script, a command line, or a configuration file."""

import re
from collections.abc import Iterator

_NAME = r"(?P<name>(?:NCCL|UCX|OMPI_MCA)_\w+)"
_VALUE = r"""(?P<quote>["']?)(?P<value>[^\s"';&|]*)(?P=quote)"""
_ASSIGNMENT = re.compile(
    rf"(?:(?:^|[\s;&|\"'])(?:-x|--env|-e|export|env)[ \t=]+[\"']?|^[ \t]*){_NAME}={_VALUE}", re.MULTILINE
)
"""`export NAME=VALUE`, `mpirun -x NAME=VALUE`, and `NAME=VALUE` at the beginning of a line."""
_ITEM = re.compile(rf"{_NAME}={_VALUE}")


def find_assignments(text: str) -> Iterator[re.Match[str]]:
    """Yield the assignments in a text, with groups `name` and `value`. Comments and values of others do not count."""
    if "NCCL_" not in text and "UCX_" not in text:
        return
    whole = _ITEM.fullmatch(text.strip())
    for match in [whole] if whole else _ASSIGNMENT.finditer(text):
        value = match["value"]
        line = text[text.rfind("\n", 0, match.start("name")) + 1 : match.start("name")]
        if value and not value.startswith(("$", "`")) and not line.lstrip().startswith("#"):
            yield match
