"""The style of a file: line ends, indents, JSON."""

from __future__ import annotations

import json
import re

from trackbed.cluster.jobs.editing.nodes import Node

_LIST = re.compile(r"^(?P<pad> *)(?:- +)*[^\s#-][^\n]*:[ ]*\r?\n(?P<dash> *)- ", re.MULTILINE)
"""A key and the first item of its list in block style."""


class Style:
    """The style of a text, and the places in it where new text goes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.line_end = "\r\n" if re.match(r"[^\n]*\r\n", text) else "\n"
        self.is_json = _is_json(text)
        first_list = _LIST.search(text)
        is_indented = first_list is not None and len(first_list["dash"]) > len(first_list["pad"])
        self.list_indent = "  " if is_indented else ""

    def find_line_end(self, offset: int) -> int:
        """Return the offset of the end of the line that holds `offset`, before its line break."""
        end = self.text.find("\n", offset)
        end = len(self.text) if end < 0 else end
        return end - 1 if end > offset and self.text[end - 1] == "\r" else end

    def find_end_of_comments(self, offset: int, column: int) -> int:
        """Return the end of the line that holds `offset`, or of the last comment below it that is deeper than `column`.

        Below a block scalar such a comment would be text of it.
        """
        last = end = self.find_line_end(offset)
        while end < len(self.text):
            start = self.text.index("\n", end) + 1
            end = self.find_line_end(start)
            line = self.text[start:end]
            is_deeper = len(line) - len(line.lstrip(" ")) > column
            if line.strip() and not (is_deeper and line.lstrip(" ").startswith("#")):
                break
            last = end if line.strip() else last
        return last

    def find_line_start(self, offset: int) -> int:
        """Return the offset of the first character of the line that holds `offset`."""
        return self.text.rfind("\n", 0, offset) + 1

    def get_indent(self, offset: int) -> str:
        """Return the white space at the start of the line that holds `offset`."""
        start = self.find_line_start(offset)
        line = self.text[start : self.find_line_end(start)]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def find_comment_start(self, line_start: int) -> int:
        """Return the start of the first of the comment lines directly above a line, or of the line itself."""
        while line_start:
            start = self.find_line_start(line_start - 1)
            if not self.text[start:line_start].lstrip(" ").startswith("#"):
                break
            line_start = start
        return line_start

    def find_json_indent(self, node: Node) -> tuple[str | None, str]:
        """Return the indent of JSON per level and that of the entries of a collection; None if it is on one line."""
        first = node.entries[0].key or node.entries[0].value
        if "\n" not in self.text[node.start : first.start]:
            return None, ""
        margin = self.get_indent(first.start)
        return margin[len(self.get_indent(node.start)) :], margin

    def join_lines(self, lines: list[str]) -> str:
        """Return lines as text to insert at the end of another line."""
        return "".join(f"{self.line_end}{line}" for line in lines)


def _is_json(text: str) -> bool:
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
