"""Command lines and JSON of perftest (linux-rdma/perftest 6.29, src/perftest_parameters.c).

Its JSON has no unit, so `--report_gbits` is always given. A file is truncated for each result, but a pipe is not: of
several documents the last counts. Debian 12's perftest (6.06) quotes neither keys nor words and leaves trailing commas;
`--output=bandwidth` leaves one and `--raw_qos` an unquoted key in newer ones. All are read. What decides about a value
(test, device, size) has to be as requested.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from trackbed.prove.rungs.rung import (
    CLIENT_AFTER_SECONDS,
    PathEnd,
    ProbedPath,
    RungReading,
    Step,
    choose_server_port,
    get_mapping,
    get_number,
    get_text,
    shorten,
)

JSON_FILE = "/dev/stderr"
"""A pipe of the worker: nothing is left on a disk. Standard output has the addresses of all flows, before and after."""
_FIRST_RELAY_PORT = 19515
"""TCP port of rail 0 on the client's host, where its relay listens; no test of another rail has it."""
_MAX_CHARACTERS = 1 << 14
"""Four times what a worker keeps of a stream."""
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
_UNQUOTED_KEY = re.compile(r"^([ \t]*)([A-Za-z_][\w.]*)([ \t]*:)", re.MULTILINE)
_UNQUOTED_WORD = re.compile(r'^([ \t]*"[^"\n]+"[ \t]*:[ \t]*)([A-Za-z_][^",\n]*)', re.MULTILINE)
"""None of these crosses a line: it would begin again on each of ten thousand empty ones."""


class PerftestError(ValueError):
    """Output of perftest that gives no value; the message says why."""


def build_argv(program: str, path: ProbedPath, end: PathEnd, *options: str) -> list[str]:
    """Return the command line of one end, without the connection to the other one."""
    argv = [program, "-d", end.rdma, "-F"]
    argv += ["-x", str(end.gid_index)] if end.gid_index is not None else []
    argv += ["-m", str(path.path_mtu_bytes), "--tclass", str(path.traffic_class), *options]
    return [*argv, "--out_json", f"--out_json_file={JSON_FILE}"]


def build_steps(path: ProbedPath, client: Sequence[str], server: Sequence[str]) -> tuple[Step, Step]:
    """Return the steps of the client, a, and the server, b, which exchange their settings over the rail.

    A relay on the client's host binds the address (fleet/relay.py): perftest itself can since June 2023 alone
    (8ff29c1, `--bind_source_ip`), and Debian 12's is older.
    """
    near, far = str(_FIRST_RELAY_PORT + path.a.rail), choose_server_port(path.b)
    relay = {"port": int(near), "source": path.a.address, "target": path.b.address, "targetPort": far}
    return (
        {"argv": [*client, "-p", near, "127.0.0.1"], "relay": relay, "after": CLIENT_AFTER_SECONDS},
        {"argv": [*server, "-p", str(far)]},
    )


def parse_results(text: str, end: PathEnd, test: str, size_bytes: int) -> Mapping[str, Any]:
    """Return the results of the last document in perftest's standard error.

    `test` is the name that perftest gives the test. Raises PerftestError if there is no document, or if it is of
    another test, device or message size.
    """
    document = _parse_last_document(text[-_MAX_CHARACTERS:])
    results, info = get_mapping(document, "results"), get_mapping(document, "test_info")
    name = get_text(info, "test").replace("Post_List_", "")  # an option of speed alone
    for key, value, wanted in (("test", name, test), ("Device", get_text(info, "Device"), end.rdma)):
        if value != wanted:
            raise PerftestError(f"its JSON has {key} {value!r} instead of {wanted!r}")
    if "MsgSize" in results and get_number(results, "MsgSize") != size_bytes:
        raise PerftestError(f"its JSON is of messages of {results['MsgSize']!r} bytes instead of {size_bytes}")
    return results


def build_unclear(program: str, path: ProbedPath, reason: str) -> RungReading:
    """Return the reading of a client whose output gives no value: its partner has nothing to do with that."""
    return RungReading("unclear", None, f"{program} to {path.b.node}: {shorten(reason)}", path.a.node)


def parse_info(text: str) -> Mapping[str, Any]:
    """Return what the last document says of its test. Raises PerftestError if there is none."""
    return get_mapping(_parse_last_document(text[-_MAX_CHARACTERS:]), "test_info")


def read_value(results: Mapping[str, Any], *keys: str) -> float:
    """Return the first of the keys that is there, a finite number above 0. Raises PerftestError."""
    key = next((key for key in keys if key in results), keys[0])
    value = get_number(results, key)
    if not value:
        raise PerftestError(f"its JSON has {key} {results.get(key)!r}, which is no measurement")
    return value


def _parse_last_document(text: str) -> object:
    start = text.rfind("test_info")
    brace = text.rfind("{", 0, max(start, 0))
    end = text.rfind("}")
    if start < 0 or brace < 0 or end < start:
        raise PerftestError("it printed no JSON; perftest 4.5 and newer does")
    repaired = _UNQUOTED_KEY.sub(r'\1"\2"\3', _TRAILING_COMMA.sub(r"\1", text[brace : end + 1]))
    try:
        return json.loads(_UNQUOTED_WORD.sub(r'\1"\2"', repaired))
    except (ValueError, RecursionError) as error:
        raise PerftestError(f"its JSON cannot be read: {error}") from None
