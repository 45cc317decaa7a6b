"""A record that somebody else wrote takes no memory of whoever undoes a run."""

from __future__ import annotations

import base64
import lzma
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.needs("processes")

UNPACK = """
import resource, sys
from pathlib import Path
from trackbed.cluster.api.errors import KubeError
from trackbed.cluster.rollout.history import DONE, RunRecord
resource.setrlimit(resource.RLIMIT_AS, (768 << 20, 768 << 20))
try:
    RunRecord(7, DONE, Path(sys.argv[1]).read_text()).unpack_objects()
except KubeError as error:
    print(error)
"""


@cache
def pack_400_mib() -> bytes:
    return lzma.compress(bytes(400 << 20), preset=0)


HOSTILE = {
    "one stream": (pack_400_mib, "it is cut off, or unpacks to more than 64 MiB"),
    "many streams": (lambda: lzma.compress(b"[]" + b" " * (16 << 20), preset=0) * 64, ""),
    "a dictionary of 1 GiB": (
        lambda: lzma.compress(b"[]", filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 30, "preset": 0}]),
        "Memory usage limit exceeded",
    ),
    "cut off": (lambda: pack_400_mib()[:1000], "it is cut off, or unpacks to more than 64 MiB"),
    "no xz": (lambda: b"hello, this is no xz", "Input format not supported by decoder"),
}


@pytest.mark.parametrize(("pack", "reason"), HOSTILE.values(), ids=HOSTILE)
def test_a_record_that_unpacks_to_more_than_any_cluster_has_is_told(
    pack: Callable[[], bytes], reason: str, tmp_path: Path
) -> None:
    (tmp_path / "record").write_bytes(base64.b64encode(pack()))
    argv = [sys.executable, "-c", UNPACK, str(tmp_path / "record")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (f"the record of revision 7 cannot be read: {reason}\n" if reason else "")
