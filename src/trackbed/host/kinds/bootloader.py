"""Boot loaders: the arguments that they pass at the next boot, and the commands that change them.

    kernelstub   /etc/kernelstub/configuration                       kernelstub --add-options, --delete-options
    grubby       /boot/loader/entries/*.conf (BLS), grub2/grubenv     grubby --update-kernel=ALL --args, --remove-args
    GRUB         /etc/default/grub and grub.d/*.cfg -> grub.cfg       update-grub, or grub-mkconfig

The arguments of Trackbed are in one file: GRUB's drop-in, or /etc/trackbed/kernel-arguments for the other boot loaders.
(GNU GRUB manual 2.12, "Simple configuration handling"; grub.d is read by the grub-mkconfig of Debian and Ubuntu; the
Boot Loader Specification of the UAPI group; grubby(8); kernelstub's README.)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from trackbed.host.change import Run
from trackbed.host.kinds.arguments import split_cmdline
from trackbed.host.kinds.other_bootloaders import LOADERS, is_present
from trackbed.host.machine import Machine
from trackbed.host.setting import HEAD

GRUB_FILE = "/etc/default/grub.d/90-trackbed.cfg"
OTHER_FILE = "/etc/trackbed/kernel-arguments"

_GRUB_LINE = 'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT '
_ENTRIES = "/boot/loader/entries"


class Loader(NamedTuple):
    """A boot loader. `staged` holds the arguments of the next boot (None: unreadable), `ours` Trackbed's own.

    Arguments are appended to the commands `add` and `remove`. If both are equal, the command reads `file` instead.
    `config_files` are the files in which the owner sets arguments.
    """

    name: str
    file: str
    staged: tuple[str, ...] | None
    ours: tuple[str, ...]
    add: tuple[str, ...]
    remove: tuple[str, ...]
    config_files: tuple[str, ...]

    @property
    def is_configured_by_files(self) -> bool:
        """Whether the command takes no arguments and makes the boot loader read `file`."""
        return self.add == self.remove

    @property
    def is_outdated(self) -> bool:
        """Whether the boot loader has not read the present content of `file`, for example after a power failure."""
        return self.is_configured_by_files and self.staged is not None and not set(self.ours) <= set(self.staged)

    def render(self, words: Sequence[str]) -> str | None:
        """Return the content of `file` with these arguments; without arguments None, which deletes the file."""
        if not words:
            return None
        line = f'{_GRUB_LINE}{" ".join(map(quote_for_grub, words))}"' if self.file == GRUB_FILE else " ".join(words)
        return f"{HEAD}{line}\n"

    def build_runs(self, words: Sequence[str]) -> tuple[Run, ...]:
        """Return the commands that make the loader pass these arguments, each with its undo command."""
        if self.is_configured_by_files:
            return (Run(self.add, self.add),)
        gone = tuple(word for word in self.ours if word not in words)
        fresh = tuple(word for word in words if word not in (self.staged or ()))
        taken = ((Run(_append_words(self.remove, gone), _append_words(self.add, gone)),)) if gone else ()
        return (*taken, Run(_append_words(self.add, fresh), _append_words(self.remove, fresh))) if fresh else taken


def find_loader(machine: Machine) -> Loader | None:
    """Return the machine's boot loader; None if it is not GRUB, grubby or kernelstub (see `other_bootloaders`)."""
    if machine.locate("/etc/kernelstub/configuration").is_file():
        return _find_kernelstub(machine)
    ostree, systemd_boot = LOADERS[:2]
    if is_present(machine, ostree) or (is_present(machine, systemd_boot) and not machine.has_program("grubby")):
        return None
    entries = sorted(machine.locate(_ENTRIES).glob("*.conf")) if machine.locate("/boot").is_dir() else []
    if entries and (machine.has_program("grubby") or not _supports_grub_drop_ins(machine)):
        return _find_grubby(machine, [entry.name for entry in entries])
    return _find_grub(machine) if _supports_grub_drop_ins(machine) else None


def locate_argument(machine: Machine, loader: Loader, word: str) -> str:
    """Return where the owner set an argument (`file:line`), or the boot loader's files if no line has it."""
    places, sought = [], re.compile(rf"(?<![\w.-]){re.escape(word)}(?![\w.-])")
    for place in loader.config_files:
        lines = enumerate(machine.read_lines(place), start=1)
        places += [f"{place}:{number}" for number, line in lines if sought.search(line.partition("#")[0])]
    return ", ".join(places or loader.config_files)


def _append_words(command: tuple[str, ...], words: Iterable[str]) -> tuple[str, ...]:
    """Append arguments to a command: to its last word if that ends with `=`, otherwise as one further word."""
    joined = " ".join(words)
    return (*command[:-1], command[-1] + joined) if command[-1].endswith("=") else (*command, joined)


def quote_for_grub(word: str) -> str:
    """Quote an argument whose `;` would end the command `linux` in grub.cfg (GNU GRUB manual 2.12, "Quoting")."""
    return f"'{word}'" if ";" in word else word


def _split_script_line(line: str) -> tuple[str, ...]:
    """Split a line of grub.cfg or of GRUB's drop-in into words without their quotes."""
    return tuple(word.replace("'", "").replace('"', "") for word in split_cmdline(line.replace('\\"', "'")))


def _read_trackbed_arguments(machine: Machine, path: str) -> tuple[str, ...]:
    return tuple(
        word
        for line in machine.read_lines(path)
        if not line.startswith("#")
        for word in _split_script_line(line.removeprefix(_GRUB_LINE).removesuffix('"'))
    )


def _find_grub(machine: Machine) -> Loader:
    configurations = (machine.read_lines(f"/boot/{folder}/grub.cfg") for folder in ("grub", "grub2"))
    staged = _parse_first_grub_entry(next(filter(None, configurations), []))
    config = next((f for f in ("grub", "grub2") if machine.locate(f"/boot/{f}").is_dir()), "grub")
    mkconfig = (f"{config}-mkconfig", "-o", f"/boot/{config}/grub.cfg")
    update = (
        mkconfig if machine.has_program(mkconfig[0]) and not machine.has_program("update-grub") else ("update-grub",)
    )
    drop_ins = sorted(path.name for path in machine.locate("/etc/default/grub.d").glob("*.cfg"))
    places = ("/etc/default/grub", *(f"/etc/default/grub.d/{name}" for name in drop_ins))
    theirs = tuple(place for place in places if place != GRUB_FILE)
    return Loader("GRUB", GRUB_FILE, staged, _read_trackbed_arguments(machine, GRUB_FILE), update, update, theirs)


def _supports_grub_drop_ins(machine: Machine) -> bool:
    """Return whether GRUB's program reads drop-ins: its script says so, else a program or folder of Debian's does."""
    known = machine.locate("/etc/default/grub").is_file()
    scripts = [machine.read(f"/usr/sbin/{name}-mkconfig") for name in ("grub", "grub2")]
    if texts := [text for text in scripts if isinstance(text, str)]:
        return known and any("/default/grub.d" in text for text in texts)
    signs = (machine.locate(place) for place in ("/etc/default/grub.d", "/usr/sbin/update-grub"))
    return known and (machine.has_program("update-grub") or any(sign.exists() for sign in signs))


def _parse_first_grub_entry(lines: list[str]) -> tuple[str, ...] | None:
    """Return the arguments of the first `linux` line of a grub.cfg, the default entry."""
    for line in lines:
        words = _split_script_line(line)
        if words[:1] and words[0] in {"linux", "linux16", "linuxefi"}:
            return words[2:]
    return None


def _find_grubby(machine: Machine, entries: list[str]) -> Loader:
    lines = (line.partition("=") for line in machine.read_lines("/boot/grub2/grubenv"))
    variables = {name: value for name, sign, value in lines if sign}
    normal = [name for name in entries if "-rescue" not in name] or entries
    saved = f"{variables.get('saved_entry', '')}.conf"
    chosen = saved if saved in entries else normal[-1]
    staged = _parse_entry_options(machine.read(f"{_ENTRIES}/{chosen}"), variables)
    command = ("grubby", "--update-kernel=ALL")
    return Loader(
        "grubby",
        OTHER_FILE,
        staged,
        _read_trackbed_arguments(machine, OTHER_FILE),
        (*command, "--args="),
        (*command, "--remove-args="),
        (f"{_ENTRIES}/{chosen}", "/boot/grub2/grubenv", "/etc/default/grub"),
    )


def _parse_entry_options(text: object, variables: dict[str, str]) -> tuple[str, ...] | None:
    """Return the arguments of a boot loader entry, with $kernelopts and similar variables expanded."""
    if not isinstance(text, str):
        return None
    words: list[str] = []
    for line in text.splitlines():
        key, _, options = line.strip().partition(" ")
        for word in _split_script_line(options) if key == "options" else ():
            words += split_cmdline(variables.get(word[1:], "")) if word.startswith("$") else [word]
    return tuple(words)


def _find_kernelstub(machine: Machine) -> Loader:
    place = "/etc/kernelstub/configuration"
    return Loader(
        "kernelstub",
        OTHER_FILE,
        _parse_kernelstub_options(machine.read(place)),
        _read_trackbed_arguments(machine, OTHER_FILE),
        ("kernelstub", "--add-options"),
        ("kernelstub", "--delete-options"),
        (place,),
    )


def _parse_kernelstub_options(text: object) -> tuple[str, ...] | None:
    try:
        options = json.loads(text)["user"]["kernel_options"] if isinstance(text, str) else None
    except (ValueError, KeyError, TypeError):
        return None
    if isinstance(options, list) and all(isinstance(word, str) for word in options):
        return tuple(options)
    return split_cmdline(options) if isinstance(options, str) else None
