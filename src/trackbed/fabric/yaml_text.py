"""Block YAML that readers of YAML 1.1 and 1.2 understand alike, written fast enough for 100,000 objects.

Text that could be read as another type is double-quoted. Text of several lines is a literal block.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

# Regular expressions are compiled when first used: hosts import this module, and many never use them.
_PLAIN = r"[A-Za-z_./][-A-Za-z0-9_./+]*(?:[:=][-A-Za-z0-9_./+]+)*"
_IPV4 = r"[1-9][0-9]{0,2}(?:\.[0-9]{1,3}){3}(?:/[0-9]{1,2})?"
"""IPv4 addresses and ranges: no number has four groups."""
_WORDS = r"(?i)y|n|yes|no|on|off|true|false|null|nan|\.nan|[.]inf|~|[.0-9_-]+|[0-9.]+e[0-9]+|<<|=|\.|\.\."
"""Text that YAML 1.1 or 1.2 reads as a boolean, null, a number or a merge key."""
_BASE60 = r"(?i)[-+0-9_:.]+|0[xo].*"
_LITERAL = r"(?:[^\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]*\n)+"
"""Complete lines without characters that YAML can only write as escapes."""
_UNPRINTABLE = r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]"


class Layout(NamedTuple):
    """Options of the layout; the defaults are those of Kubernetes manifests."""

    width: int = 0
    """Longest line of a mapping in flow style, in characters; 0 writes no collection in flow style.

    A list without mappings is written in flow style whatever its length.
    """
    list_indent: str = ""
    plain: str | None = None
    """Regular expression of further text without quotes."""
    plain_value: str | None = None
    """Regular expression of further text without quotes where it is not part of a collection in flow style."""


_DEFAULT_LAYOUT = Layout()
FABRIC_LAYOUT = Layout(
    width=120,
    list_indent="  ",
    plain=r"(?![-0-9_.]*:[-0-9_.:]*\Z)[0-9][-A-Za-z0-9_./]*(?::[-A-Za-z0-9_./]+)*",
    plain_value=r"[A-Za-z0-9][-A-Za-z0-9_.]*[,\[][-A-Za-z0-9_.,\[\]]*",
)
"""Layout of a Fabric and its lock. Their reader keeps every scalar as text, so only base-60 numbers need quotes.

Host ranges are plain at the end of a line; within braces their brackets would end a collection.
"""


def render_documents(objects: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Render each object as a document that begins with `---`."""
    for document in objects:
        yield "---\n" + render_mapping(document)


def render_mapping(mapping: Mapping[str, Any], layout: Layout = _DEFAULT_LAYOUT) -> str:
    """Render a mapping whose values are mappings, lists, text, numbers, booleans and None; the order is kept."""
    lines: list[str] = []
    _append_entries(mapping, "", lines, layout)
    return "\n".join(lines) + "\n"


def _append_entries(mapping: Mapping[str, Any], pad: str, lines: list[str], layout: Layout) -> None:
    for key, value in mapping.items():
        _append_value(f"{pad}{_render_text(key, layout)}:", value, pad, lines, layout)


def _append_value(head: str, value: Any, pad: str, lines: list[str], layout: Layout) -> None:  # noqa: ANN401 - any YAML
    if isinstance(value, str):
        if "\n" in value and _is_literal(value):
            lines.append(f"{head} |")
            lines.extend(f"{pad}  {line}" if line else "" for line in value[:-1].split("\n"))
        elif layout.plain_value and re.fullmatch(layout.plain_value, value):
            lines.append(f"{head} {value}")
        else:
            lines.append(f"{head} {_render_text(value, layout)}")
    elif not _is_nested(value, len(head) + 1, layout):
        lines.append(f"{head} {_render_flow(value, layout)}")
    else:
        lines.append(head)
        if isinstance(value, dict):
            _append_entries(value, pad + "  ", lines, layout)
        else:
            _append_items(value, pad + layout.list_indent, lines, layout)


def _append_items(items: Iterable[Any], pad: str, lines: list[str], layout: Layout) -> None:
    """Append the items of a list: a mapping or list begins on the line of its dash."""
    for item in items:
        if _is_nested(item, len(pad) + 2, layout):
            start = len(lines)
            append = _append_entries if isinstance(item, dict) else _append_items
            append(item, pad + "  ", lines, layout)
            lines[start] = f"{pad}- {lines[start][len(pad) + 2 :]}"
        else:
            _append_value(f"{pad}-", item, pad, lines, layout)


def _is_nested(value: Any, column: int, layout: Layout) -> bool:  # noqa: ANN401 - any YAML
    """Return whether a value is a collection in block style; in flow style it would begin at `column`."""
    if not value or not isinstance(value, (dict, list, tuple)):
        return False
    if not layout.width:
        return True
    if not isinstance(value, dict):
        return any(isinstance(item, dict) for item in value)
    nested = any(isinstance(inner, (dict, list, tuple)) for inner in value.values())
    return nested or column + len(_render_flow(value, layout)) > layout.width


def _render_flow(value: Any, layout: Layout) -> str:  # noqa: ANN401 - any YAML
    if isinstance(value, str):
        return _render_text(value, layout)
    if isinstance(value, dict):
        entries = (f"{_render_text(key, layout)}: {_render_flow(inner, layout)}" for key, inner in value.items())
        return f"{{{', '.join(entries)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_render_flow(item, layout) for item in value)}]"
    rendered = json.dumps(value)
    return re.sub(r"^(-?\d+)e", r"\1.0e", rendered) if isinstance(value, float) else rendered  # 1e300 is text in 1.1


@lru_cache(maxsize=1 << 16)
def _render_text(text: str, layout: Layout) -> str:
    """Quote text that could be read as another type; JSON's escapes are valid in YAML, except surrogate pairs."""
    plain = re.fullmatch(_PLAIN, text) and not re.fullmatch(_WORDS, text) and not re.fullmatch(_BASE60, text)
    if plain or re.fullmatch(_IPV4, text) or (layout.plain and re.fullmatch(layout.plain, text)):
        return text
    escaped = json.dumps(text, ensure_ascii=False)
    return re.sub(_UNPRINTABLE, lambda match: f"\\u{ord(match[0]):04x}", escaped)


def _is_literal(text: str) -> bool:
    """Return whether a literal block preserves the text: complete lines, the first neither blank nor indented."""
    return re.fullmatch(_LITERAL, text) is not None and text[0] not in " \n" and not text.endswith("\n\n")
