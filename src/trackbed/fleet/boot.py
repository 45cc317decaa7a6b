"""The start of `node` on a host: the command that ssh runs, and its standard input.

    command   sh starts the first Python that is new enough (by `sudo -n` unless root); that reads the input into memory
              and calls node.main
    input     LENGTHS OF THREE PARTS, newline, sources, compiled modules, request

In a container the input is a file. There, and where a launcher starts it, nobody asks sudo.

Nothing is done before the whole input has arrived. If the program cannot start, the exit status gives the reason.
"""

from collections.abc import Sequence

import msgspec

from trackbed.fleet import archive, interpreters
from trackbed.fleet.task import HostTask

NO_PYTHON, CUT_SHORT = 91, 93
"""Exit statuses: no Python from archive.OLDEST on; the input ended early."""

REFUSAL = "trackbed-python|"
"""Prefix of the line that the shell prints before it exits with NO_PYTHON, see `parse_refusal`."""

PROGRAM = f"""\
import sys, gc, marshal, os, zlib, _frozen_importlib as b, _frozen_importlib_external as e
gc.disable()
i = sys.stdin.buffer
n = [int(x) for x in i.readline().split()] or [1]
a, c, r = s = [i.read(x) for x in (n * 3)[:3]]
if [len(x) for x in s] != n: sys.exit({CUT_SHORT})
M = e.MAGIC_NUMBER
k = marshal.loads(zlib.decompress(c[len(M):] if c.startswith(M) else a))
class F:
    def find_spec(n, path=None, target=None):
        return b.ModuleSpec(n, F, is_package=k[n][0]) if n in k else None
    def create_module(spec): pass
    def exec_module(m):
        x = k[m.__name__][1]
        exec(compile(x, m.__name__, "exec", optimize=2) if type(x) is bytes else x, m.__dict__)
sys.meta_path.insert(0, F)
import {archive.START} as m
m.main(r)
os._exit(0)
"""
"""The program that reads standard input. Garbage collection and shutdown, a quarter of its run time, are skipped."""
_TEST = f"""\
import sys, importlib.util as u
lack = " without json" if u.find_spec("json") is None else ""
print(sys.version.split()[0] + lack)
sys.exit(bool(lack) or sys.version_info < {archive.OLDEST})
"""
"""The program that a Python runs first: it prints its version. Debian's python3-minimal has a part of its library."""

_START = '[ "$(id -u)" = 0 ] && exec "$p" -IS -c "$0"; exec sudo -n -- "$p" -IS -c "$0"'
_START_AS_USER = 'exec "$p" -IS -c "$0"'
_START_IN_CONTAINER = 'exec "$p" -IS -c "$0" < "$2"'


def _build_script(start: str) -> str:
    """Return the program of sh, without single quotes, `!`, backslashes and newlines: each login shell can quote it."""
    return (
        f"f=; for p in {' '.join(interpreters.NAMES)}; do "
        'p=$(command -v "$p") || continue; '
        'v=$("$p" -IS -c "$1" 2>/dev/null) || { [ "$v" ] && f="$f$p $v, "; continue; }; '
        f"{start}; done; "
        "[ -r /etc/os-release ] && . /etc/os-release; "
        f'echo "{REFUSAL}$ID|$VERSION_ID|$PRETTY_NAME|$f"; exit {NO_PYTHON}'
    )


def build_command(*, asks_sudo: bool = True) -> str:
    """Return the command for ssh, quoted so that every login shell parses it alike."""
    programs = " ".join(f"'exec(bytes.fromhex(\"{code.encode().hex()}\"))'" for code in (PROGRAM, _TEST))
    return f"exec sh -c '{_build_script(_START if asks_sudo else _START_AS_USER)}' {programs}"


def build_container_command(payload_path: str) -> list[str]:
    """Return the command of a container in which a file has the payload; no user is changed there."""
    return ["sh", "-c", _build_script(_START_IN_CONTAINER), PROGRAM, _TEST, payload_path]


def build_payload(task: HostTask, *, has_compiled: bool = True) -> bytes:
    """Return the input of the command on one host; without compiled modules it is half as long."""
    compiled = archive.pack_compiled() if has_compiled else b""
    parts = (archive.pack_sources(), compiled, msgspec.json.encode(task))
    return b" ".join(b"%d" % len(part) for part in parts) + b"\n" + b"".join(parts)


def parse_refusal(output: Sequence[str]) -> interpreters.Refusal:
    """Return what the shell printed before NO_PYTHON; empty if the line is missing."""
    line = next((line for line in output if line.startswith(REFUSAL)), "")
    fields = line.removeprefix(REFUSAL).split("|")
    return interpreters.Refusal(*fields) if len(fields) == len(interpreters.Refusal._fields) else interpreters.Refusal()
