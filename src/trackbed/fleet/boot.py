"""Starting `node` on a host: the command that ssh is given, and what is written to its standard input.

    command   sh finds python3 (by `sudo -n` unless root), python reads it all into memory and calls node.main
    input     LENGTHS OF THREE PARTS, newline, archive of sources, compiled modules, request

Nothing is done before all of it has arrived. Exit statuses tell why nothing was.
"""

from __future__ import annotations

import msgspec

from trackbed.fleet import archive
from trackbed.fleet.task import Task

NO_PYTHON, OLD_PYTHON, CUT_SHORT = 91, 92, 93
"""Exit statuses: no python3; one before archive.OLDEST; the input ended early."""

_PYTHON = f"""\
import sys
if sys.version_info < {archive.OLDEST}: sys.exit({OLD_PYTHON})
import gc, os, _frozen_importlib as b, _frozen_importlib_external as e
gc.disable()
i = sys.stdin.buffer
n = [int(x) for x in i.readline().split()] or [1]
a, c, r = s = [i.read(x) for x in (n * 3)[:3]]
if [len(x) for x in s] != n: sys.exit({CUT_SHORT})
if c.startswith(e.MAGIC_NUMBER):
    import marshal, zlib
    k = marshal.loads(zlib.decompress(c[len(e.MAGIC_NUMBER):]))
    class F:
        def find_spec(n, path=None, target=None):
            return b.ModuleSpec(n, F, is_package=k[n][0]) if n in k else None
        def create_module(spec): pass
        def exec_module(m): exec(k[m.__name__][1], m.__dict__)
    sys.meta_path.insert(0, F)
else:
    f = os.memfd_create("trackbed")
    with os.fdopen(f, "wb", closefd=False) as o: o.write(a)
    sys.path.insert(0, "/proc/self/fd/%d" % f)
import {archive.START} as m
m.main(r)
os._exit(0)
"""
"""It lives for a moment: collecting garbage, and taking itself apart at the end, would be a quarter of its time."""
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
    parts = (archive.sources(), archive.compiled(), msgspec.json.encode(task))
    return b" ".join(b"%d" % len(part) for part in parts) + b"\n" + b"".join(parts)
