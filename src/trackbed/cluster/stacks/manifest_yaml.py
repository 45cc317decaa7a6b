"""Objects as YAML that any reader takes the same way, written fast enough for 100,000 of them.

Block style throughout; text that some YAML reader would take for something else stands in double quotes; text of
several lines stands as a literal block. The output is YAML 1.2 and means the same in YAML 1.1.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PLAIN = re.compile(r"[A-Za-z_./][-A-Za-z0-9_./+]*(?:[:=][-A-Za-z0-9_./+]+)*")
_NUMBERS = re.compile(r"[1-9][0-9]{0,2}(?:\.[0-9]{1,3}){3}(?:/[0-9]{1,2})?")
"""IPv4 addresses and ranges: four groups can be no number."""
_WORDS = re.compile(r"(?i)y|n|yes|no|on|off|true|false|null|nan|\.nan|[.]inf|~|[.0-9_-]+|[0-9.]+e[0-9]+|<<|=|\.|\.\.")
"""What YAML 1.1 or 1.2 readers take for booleans, nothing, numbers or merge keys."""
_BASE60 = re.compile(r"[-+0-9_:.]+|0[xo].*", re.IGNORECASE)
_BLOCK = re.compile(r"(?:[^\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]*\n)+")
"""Text of whole lines that a literal block can hold as it is."""


def documents(objects: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Each object as a YAML document, headed by `---`."""
    for one in objects:
        lines = ["---"]
        _mapping(one, "", lines)
        yield "\n".join(lines) + "\n"


def _mapping(value: dict[str, Any], pad: str, lines: list[str]) -> None:
    for key, inner in value.items():
        _entry(f"{pad}{_text(key)}:", inner, pad, lines)


def _entry(head: str, inner: Any, pad: str, lines: list[str]) -> None:  # noqa: ANN401 - YAML holds anything
    if isinstance(inner, dict) and inner:
        lines.append(head)
        _mapping(inner, pad + "  ", lines)
    elif isinstance(inner, (list, tuple)) and inner:
        lines.append(head)
        for item in inner:
            _item(item, pad, lines)
    elif isinstance(inner, str) and "\n" in inner and _is_block(inner):
        lines.append(f"{head} |")
        lines.extend(f"{pad}  {line}" if line else "" for line in inner[:-1].split("\n"))
    else:
        lines.append(f"{head} {_scalar(inner)}")


def _item(item: Any, pad: str, lines: list[str]) -> None:  # noqa: ANN401 - YAML holds anything
    """One item of a list: a mapping or list begins on the line of its dash."""
    if (isinstance(item, (dict, list, tuple)) and item) or (isinstance(item, str) and "\n" in item):
        start = len(lines)
        if isinstance(item, dict):
            _mapping(item, pad + "  ", lines)
        elif isinstance(item, str):
            _entry("", item, pad, lines)
            lines[start] = f"{pad}  {lines[start].lstrip()}"
        else:
            for inner in item:
                _item(inner, pad + "  ", lines)
        lines[start] = f"{pad}- {lines[start][len(pad) + 2 :]}"
    else:
        lines.append(f"{pad}- {_scalar(item)}")


def _scalar(value: Any) -> str:  # noqa: ANN401 - YAML holds anything
    if isinstance(value, str):
        return _text(value)
    written = json.dumps(value)  # numbers, true, false, null, {} and [] are the same in both ...
    return re.sub(r"^(-?\d+)e", r"\1.0e", written) if isinstance(value, float) else written  # ... 1e300 is text in 1.1


@lru_cache(maxsize=1 << 14)
def _text(value: str) -> str:
    if _NUMBERS.fullmatch(value):
        return value
    plain = _PLAIN.fullmatch(value) and not _WORDS.fullmatch(value) and not _BASE60.fullmatch(value)
    return value if plain else _quoted(value)


_UNPRINTABLE = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def _quoted(value: str) -> str:
    """A double-quoted scalar: JSON's escapes are YAML's too, except that YAML has no surrogate pairs."""
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


def _is_block(value: str) -> bool:
    """Whether a literal block gives the text back: whole lines, the first neither blank nor indented."""
    return _BLOCK.fullmatch(value) is not None and value[0] not in " \n" and not value.endswith("\n\n")
