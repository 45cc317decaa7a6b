"""Reading of YAML files of a host: whoever is root there, or sent an archive of it, may have written anything."""

from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.typed_yaml import parse_values


def parse_host_yaml(text: str | None) -> object:
    """Return the value of a YAML document; None if it is absent, malformed, or too large with its aliases expanded."""
    try:
        values = parse_values(text or "")
    except (SpecError, ValueError, RecursionError):
        return None
    return values[0] if len(values) == 1 else None
