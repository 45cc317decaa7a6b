"""Boot loaders: the arguments they will pass at the next boot, and the commands that change these.

    kernelstub   /etc/kernelstub/configuration                       kernelstub --add-options, --delete-options
    grubby       /boot/loader/entries/*.conf (BLS), grub2/grubenv     grubby --update-kernel=ALL --args, --remove-args
    GRUB         /etc/default/grub and grub.d/*.cfg -> grub.cfg       update-grub, or grub-mkconfig

Which arguments are ours stands in one file of ours: GRUB's own drop-in, /etc/trackbed/kernel-arguments for the others.
(GNU GRUB manual 2.12, "Simple configuration handling"; grub.d is read by the grub-mkconfig of Debian and Ubuntu; the
Boot Loader Specification of the UAPI group; grubby(8); kernelstub's README.)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from trackbed.host.change import Run
from trackbed.host.kinds.arguments import split
from trackbed.host.machine import Machine
from trackbed.host.setting import HEAD

GRUB_FILE = "/etc/default/grub.d/90-trackbed.cfg"
OTHER_FILE = "/etc/trackbed/kernel-arguments"

_GRUB_LINE = 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT '
_ENTRIES = "/boot/loader/entries"


class Loader(NamedTuple):
    """A boot loader: `staged` is what it will pass (None: cannot be read), `ours` the arguments of ours among them.

    `add` and `remove` are commands that end where the arguments go; where they are the same, one run reads the files.
    """

    name: str
    file: str
    staged: tuple[str, ...] | None
    ours: tuple[str, ...]
    add: tuple[str, ...]
    remove: tuple[str, ...]
    places: tuple[str, ...]

    @property
    def is_configured_by_files(self) -> bool:
        """Whether our file alone holds the arguments, and the command only makes the loader read it."""
        return self.add == self.remove

    @property
    def behind(self) -> bool:
        """Whether the loader has not read the current content of our file, for example after a power cut."""
        return self.is_configured_by_files and self.staged is not None and not set(self.ours) <= set(self.staged)

    def render(self, words: Sequence[str]) -> str | None:
        """Return the content of our file with these arguments; None without arguments, for no file."""
        if not words:
            return None
        line = f'{_GRUB_LINE}{" ".join(words)}"' if self.file == GRUB_FILE else " ".join(words)
        return f"{HEAD}{line}\n"

    def build_runs(self, words: Sequence[str]) -> tuple[Run, ...]:
        """Return the commands that make the loader pass these arguments, each with its undo command."""
        if self.is_configured_by_files:
            return (Run(self.add, self.add),)
        gone = tuple(word for word in self.ours if word not in words)
        fresh = tuple(word for word in words if word not in (self.staged or ()))
        taken = ((Run(_append_words(self.remove, gone), _append_words(self.add, gone)),)) if gone else ()
        return (*taken, Run(_append_words(self.add, fresh), _append_words(self.remove, fresh))) if fresh else taken

    def describe(self, words: Sequence[str]) -> str:
        """Return those commands as text for messages."""
        return "; ".join(" ".join(run.argv) for run in self.build_runs(words))


def find_loader(machine: Machine) -> Loader | None:
    """Return the machine's boot loader; None where it is none of the three."""
    if machine.locate("/etc/kernelstub/configuration").is_file():
        return _find_kernelstub(machine)
    entries = sorted(machine.locate(_ENTRIES).glob("*.conf")) if machine.locate("/boot").is_dir() else []
    if entries and (machine.has_program("grubby") or not _reads_drop_ins(machine)):
        return _find_grubby(machine, [entry.name for entry in entries])
    return _find_grub(machine) if _reads_drop_ins(machine) else None


def find_mentions(machine: Machine, loader: Loader, word: str) -> str:
    """Return where the administrator set an argument (`file:line`); the loader's files where no line has it."""
    places, sought = [], re.compile(rf"(?<![\w.-]){re.escape(word)}(?![\w.-])")
    for place in loader.places:
        text = machine.read(place)
        lines = text.splitlines() if isinstance(text, str) else []
        places += [
            f"{place}:{number}" for number, line in enumerate(lines, start=1) if sought.search(line.partition("#")[0])
        ]
    return ", ".join(places or loader.places)


def _append_words(command: tuple[str, ...], words: Iterable[str]) -> tuple[str, ...]:
    """Append arguments to a command: to its last word after `=`, otherwise as one more word."""
    joined = " ".join(words)
    return (*command[:-1], command[-1] + joined) if command[-1].endswith("=") else (*command, joined)


def _read_own(machine: Machine, path: str) -> tuple[str, ...]:
    text = machine.read(path)
    lines = text.splitlines() if isinstance(text, str) else []
    return tuple(
        word
        for line in lines
        if not line.startswith("#")
        for word in split(line.removeprefix(_GRUB_LINE).removesuffix('"'))
    )


def _find_grub(machine: Machine) -> Loader:
    staged = None
    for folder in ("grub", "grub2"):
        text = machine.read(f"/boot/{folder}/grub.cfg")
        if isinstance(text, str):
            staged = _parse_first_entry(text)
            break
    config = next((f for f in ("grub", "grub2") if machine.locate(f"/boot/{f}").is_dir()), "grub")
    mkconfig = (f"{config}-mkconfig", "-o", f"/boot/{config}/grub.cfg")
    update = (
        mkconfig if machine.has_program(mkconfig[0]) and not machine.has_program("update-grub") else ("update-grub",)
    )
    drop_ins = sorted(path.name for path in machine.locate("/etc/default/grub.d").glob("*.cfg"))
    places = ("/etc/default/grub", *(f"/etc/default/grub.d/{name}" for name in drop_ins))
    theirs = tuple(place for place in places if place != GRUB_FILE)
    return Loader("GRUB", GRUB_FILE, staged, _read_own(machine, GRUB_FILE), update, update, theirs)


def _reads_drop_ins(machine: Machine) -> bool:
    known = machine.locate("/etc/default/grub").is_file()
    signs = (machine.locate(place) for place in ("/etc/default/grub.d", "/usr/sbin/update-grub"))
    return known and (machine.has_program("update-grub") or any(sign.exists() for sign in signs))


def _parse_first_entry(text: str) -> tuple[str, ...] | None:
    """Return the arguments of the first `linux` line of a grub.cfg, the default entry."""
    for line in text.splitlines():
        words = split(line)
        if words[:1] and words[0] in {"linux", "linux16", "linuxefi"}:
            return words[2:]
    return None


def _find_grubby(machine: Machine, entries: list[str]) -> Loader:
    variables = _parse_variables(machine.read("/boot/grub2/grubenv"))
    normal = [name for name in entries if "-rescue" not in name] or entries
    saved = f"{variables.get('saved_entry', '')}.conf"
    chosen = saved if saved in entries else normal[-1]
    staged = _parse_options(machine.read(f"{_ENTRIES}/{chosen}"), variables)
    command = ("grubby", "--update-kernel=ALL")
    return Loader(
        "grubby",
        OTHER_FILE,
        staged,
        _read_own(machine, OTHER_FILE),
        (*command, "--args="),
        (*command, "--remove-args="),
        (f"{_ENTRIES}/{chosen}", "/boot/grub2/grubenv", "/etc/default/grub"),
    )


def _parse_variables(text: object) -> dict[str, str]:
    lines = text.splitlines() if isinstance(text, str) else []
    return {name: value for name, sign, value in (line.partition("=") for line in lines) if sign}


def _parse_options(text: object, variables: dict[str, str]) -> tuple[str, ...] | None:
    """Return the arguments of a boot loader entry, with $kernelopts and similar variables expanded."""
    if not isinstance(text, str):
        return None
    words: list[str] = []
    for line in text.splitlines():
        key, _, options = line.strip().partition(" ")
        for word in split(options) if key == "options" else ():
            words += split(variables.get(word[1:], "")) if word.startswith("$") else [word]
    return tuple(words)


def _find_kernelstub(machine: Machine) -> Loader:
    place = "/etc/kernelstub/configuration"
    return Loader(
        "kernelstub",
        OTHER_FILE,
        _parse_stub_options(machine.read(place)),
        _read_own(machine, OTHER_FILE),
        ("kernelstub", "--add-options"),
        ("kernelstub", "--delete-options"),
        (place,),
    )


def _parse_stub_options(text: object) -> tuple[str, ...] | None:
    try:
        options = json.loads(text)["user"]["kernel_options"] if isinstance(text, str) else None
    except (ValueError, KeyError, TypeError):
        return None
    if isinstance(options, list) and all(isinstance(word, str) for word in options):
        return tuple(options)
    return split(options) if isinstance(options, str) else None
