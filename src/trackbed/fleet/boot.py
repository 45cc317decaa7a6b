"""Starting `node` on a host: the command that ssh is given, and what is written to its standard input.

    command   sh finds python3 (by `sudo -n` unless root), python reads the archive into memory and calls node.main
    input     LENGTH OF ARCHIVE, blank, LENGTH OF REQUEST, newline, archive, request

Nothing is done before all of it has arrived. Exit statuses tell why nothing was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trackbed.fleet import archive

if TYPE_CHECKING:
    from trackbed.fleet.task import Task

NO_PYTHON, OLD_PYTHON, CUT_SHORT = 91, 92, 93
"""Exit statuses: no python3; one before archive.OLDEST; the input ended early."""

_PYTHON = f"""\
import sys
if sys.version_info < {archive.OLDEST}: sys.exit({OLD_PYTHON})
import os
i = sys.stdin.buffer
n = [int(x) for x in i.readline().split()] or [1, 1]
a = i.read(n[0]); r = i.read(n[1])
if (len(a), len(r)) != tuple(n): sys.exit({CUT_SHORT})
f = os.memfd_create("trackbed")
with os.fdopen(f, "wb", closefd=False) as o: o.write(a)
sys.path.insert(0, "/proc/self/fd/%d" % f)
import {archive.START} as m
m.main(r)
"""
_SHELL = (
    f"p=$(command -v python3) || exit {NO_PYTHON}; "
    '[ "$(id -u)" = 0 ] && exec "$p" -IS -c "$0"; exec sudo -n -- "$p" -IS -c "$0"'
)


def command() -> str:
    """What a login shell of any kind is given: two words in single quotes for sh."""
    code = _PYTHON.encode().hex()
    return f"exec sh -c '{_SHELL}' 'exec(bytes.fromhex(\"{code}\"))'"


def payload(task: Task) -> bytes:
    """The standard input of one host."""
    request = msgspec.json.encode(task)
    sent = archive.build()
    return b"%d %d\n" % (len(sent), len(request)) + sent + request
