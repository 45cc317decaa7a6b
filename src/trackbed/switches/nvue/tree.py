"""Parser of NVUE configurations: `nv config show` (YAML), with `-o commands`, or with `-o json`.

All three become one tree of words: `nv set interface swp1 link mtu 9216` becomes tree["interface"]["swp1"]["link"]
["mtu"] with the single key "9216". NVUE writes settings that several ports share once, below a list of the ports:

    swp1-4,6        the prefix stands once: swp1, swp2, swp3, swp4, swp6
    swp1s0-1,swp2s0-1, swp1-2s0-1    ports of a breakout: swp1s0, swp1s1, swp2s0, swp2s1

A port may be in several lists, so lists are merged, and the last setting wins. Source: Cumulus Linux user guide,
section "Port Ranges", and `nv set interface -h`.
"""

import math
import re
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.model.source import read_yaml
from trackbed.switches.port_config import UnreadableError

Tree = dict[str, Any]

_LIST_KEYS = frozenset({"interface", "dscp", "traffic-class", "switch-priority"})
"""Words whose next word may list several names."""
_NUMBERS = re.compile(r"[0-9]{1,5}(?:-[0-9]{1,5})?")
"""A number, or a span of them."""
_NAME = re.compile(rf"[A-Za-z._]*{_NUMBERS.pattern}(?:[A-Za-z._]+{_NUMBERS.pattern})*")
"""A name with numbers, which may be spans; any other name stands for itself."""
_LAST_NUMBERS = re.compile(rf"{_NUMBERS.pattern}$")
_MAX_NAMES = 4096
"""Maximum number of names in one list."""
_MAX_ENTERED = 500_000
"""Maximum number of words once lists are expanded; lists within lists multiply. A leaf of 512 ports has 100,000."""
_MAX_WORDS = 64
"""Maximum number of words of a command; NVUE's own commands have about twenty at most."""


def parse_tree(raw: bytes) -> Tree:
    """Parse a configuration; raises UnreadableError if it is none of NVUE, or its lists are too long."""
    lines = [line.split() for line in raw.decode(errors="replace").splitlines()]
    commands = [words[2:] for words in lines if words[:2] == ["nv", "set"]]
    builder = _TreeBuilder()
    for words in commands:
        if len(words) > _MAX_WORDS:
            raise UnreadableError(f"a command has {len(words)} words: nv set {' '.join(words[:5])} ...")
        builder.add_command(builder.tree, words)
    if not commands:
        for settings in _iter_set_mappings(raw):
            builder.add_value(builder.tree, settings)
    return builder.tree


def _iter_set_mappings(raw: bytes) -> Iterator[Tree]:
    """Yield the `set` mappings in YAML or JSON."""
    try:
        sources = read_yaml(raw, "configuration")
    except SpecError as error:
        raise UnreadableError(error.problems[0].message) from error
    problems = [problem for source in sources for problem in source.problems]
    if problems:  # the settings there were skipped
        raise UnreadableError(problems[0].message, problems[0].place.line if problems[0].place else 0)
    documents = [source.data for source in sources]
    items = [item for document in documents for item in (document if isinstance(document, list) else [document])]
    settings = [item["set"] for item in items if isinstance(item, dict) and isinstance(item.get("set"), dict)]
    if not settings:
        raise UnreadableError("it has neither `nv set` commands nor a `set` mapping, as `nv config show` prints them")
    yield from settings


class _TreeBuilder:
    """A tree to which settings are added, and the number of words that may still be added."""

    def __init__(self) -> None:
        self.tree: Tree = {}
        self._words_left = _MAX_ENTERED

    def add_command(self, tree: Tree, words: list[str]) -> None:
        """Add a command's words."""
        if not words:
            return
        head, *tail = words
        below = self._enter_subtree(tree, head)
        if head not in _LIST_KEYS or not tail:
            self.add_command(below, tail)
            return
        for name in expand_names(tail[0]):
            self.add_command(below, [name, *tail[1:]])

    def add_value(self, tree: Tree, value: object, *, has_lists: bool = False) -> None:
        """Add a YAML value; with `has_lists`, its keys (or the value itself) are lists of names."""
        if isinstance(value, dict):
            for key, below in value.items():
                for name in expand_names(str(key)) if has_lists else [str(key)]:
                    self.add_value(self._enter_subtree(tree, name), below, has_lists=key in _LIST_KEYS)
        elif isinstance(value, list):
            for item in value:
                self.add_value(tree, item, has_lists=has_lists)
        elif value is not None:
            for name in expand_names(str(value)) if has_lists else [str(value)]:
                self._enter_subtree(tree, name)

    def _enter_subtree(self, tree: Tree, word: str) -> Tree:
        """Return the subtree below a word, which becomes the last of its tree because the last setting wins."""
        self._words_left -= 1
        if self._words_left < 0:
            raise UnreadableError(f"it has more than {_MAX_ENTERED} words once its lists are expanded")
        below: Tree = tree.pop(word, {})
        tree[word] = below
        return below


def expand_names(listing: str) -> list[str]:
    """Expand a list: swp1-2,5,swp7s0-1 becomes swp1, swp2, swp5, swp7s0, swp7s1.

    Raises:
        UnreadableError: it has more than 4096 names.
    """
    names: list[str] = []
    prefix = ""
    for item in listing.split(","):
        name = f"{prefix}{item}" if _NUMBERS.fullmatch(item) else item
        prefix = _LAST_NUMBERS.sub("", name)
        choices = _list_choices(name)
        if len(names) + math.prod(map(len, choices)) > _MAX_NAMES:
            raise UnreadableError(f"{listing[:40]} lists more than {_MAX_NAMES} names")
        names += ["".join(map(str, parts)) for parts in product(*choices)]
    return names


def _list_choices(name: str) -> list[Sequence[str | int]]:
    """Return the parts of a name, each with its possible values: ["swp"], range(1, 5) for swp1-4."""
    if not _NAME.fullmatch(name):
        return [[name]]
    choices: list[Sequence[str | int]] = []
    for part in re.split(f"({_NUMBERS.pattern})", name):
        low, dash, high = part.partition("-")
        choices.append(range(int(low), int(high) + 1) if dash else [part])
    return choices if all(choices) else [[name]]
