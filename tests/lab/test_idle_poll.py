"""A poll that finds no completion sleeps, and its answers stay: against a library that stands in for libibverbs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from trackbed_lab.kubernetes.idle_poll import build_idle_poll

pytestmark = [pytest.mark.needs("processes", "cc"), pytest.mark.may_skip("a C compiler is a package of its own")]

_VERBS = """
struct context { void *device; void *before[11]; int (*poll_cq)(void *, int, void *); };
struct cq { struct context *context; };
static int answer(void *cq, int count, void *completions) { return count; }
static struct context context = { .poll_cq = answer };
static struct cq cq = { &context };
struct cq *ibv_create_cq(void *c, int n, void *d, void *e, int v) { return &cq; }
int poll(int count) { return cq.context->poll_cq(&cq, count, 0); }
"""
_PROGRAM = """
import ctypes, json, time
verbs = ctypes.CDLL(None)
for _ in range(2):  # two queues of one device
    verbs.ibv_create_cq(None, 1, None, None, 0)
start = time.monotonic()
answers = [verbs.poll(0) for _ in range(20)]
seconds = time.monotonic() - start
print(json.dumps({"answers": sorted({*answers, verbs.poll(3), verbs.poll(-1)}), "seconds": seconds}))
"""


def test_an_empty_poll_sleeps_a_millisecond_and_answers_what_it_would(tmp_path: Path) -> None:
    source, verbs, idle_poll = tmp_path / "verbs.c", tmp_path / "verbs.so", tmp_path / "idle_poll.so"
    source.write_text(_VERBS)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", verbs, source], check=True, timeout=60)
    idle_poll.write_bytes(build_idle_poll())

    process = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env={**os.environ, "LD_PRELOAD": f"{idle_poll}:{verbs}"},
        capture_output=True,
        check=True,
        timeout=60,
    )

    result = json.loads(process.stdout)
    assert result["answers"] == [-1, 0, 3]
    assert result["seconds"] >= 20 * 0.001
