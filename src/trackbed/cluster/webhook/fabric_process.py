"""Reviews of Fabrics in processes of their own, with limits of time and memory: no Fabric delays the reviews of pods.

Each review starts a process, which takes a second: Fabrics change rarely, and it returns all memory. The question is on
its standard input, the answer on its standard output, both JSON.
"""

import asyncio
import os
import resource
import sys
from collections import Counter, defaultdict

import msgspec

from trackbed.cluster.webhook.cluster_state import ClusterState
from trackbed.cluster.webhook.fabrics import FabricQuestion, build_question, decide_question
from trackbed.cluster.webhook.review import ReviewError, ReviewRequest, Verdict

FABRIC_SECONDS = 8.0
"""Time limit of a review; the API server waits for configuration.FABRIC_TIMEOUT_SECONDS."""
MEMORY_BYTES = 512 << 20
MAX_REVIEWS = 16
"""Reviews that run or wait; more are refused at once."""
MAX_REVIEWS_OF_CLIENT = 4
"""Those of one client."""
_OUT_OF_MEMORY = 3
"""Exit status of a process that reached its limit of memory."""
_REMEDY = "cut it into several Fabrics with fewer nodes or rails"


class FabricsBusyError(Exception):
    """Too many Fabrics are being reviewed."""


class _FabricAnswer(msgspec.Struct, frozen=True):
    """A verdict, or why the request contains no Fabric."""

    verdict: Verdict | None = None
    error: str = ""


class FabricReviewer:
    """Reviews Fabrics one after the other, each in a process; clients take turns, so that none keeps out the others.

    Without `webhook.clientAuthorities` any pod that reaches the webhook is a client.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._turns_of_clients: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._counts = Counter[str]()

    async def decide(self, request: ReviewRequest, state: ClusterState, *, client: str) -> Verdict:
        """Return the verdict on a new or changed Fabric; `client` is an IP address.

        Raises ReviewError, FabricsBusyError.
        """
        if self._counts[client] >= MAX_REVIEWS_OF_CLIENT or self._counts.total() >= MAX_REVIEWS:
            raise FabricsBusyError(f"{self._counts.total()} Fabrics are being reviewed: try again")
        self._counts[client] += 1
        try:
            async with self._turns_of_clients[client], self._turn:  # one review of each client waits for the turn
                return await _decide_in_process(msgspec.json.encode(build_question(request, state)))
        finally:
            self._counts[client] -= 1
            if not self._counts[client]:
                del self._counts[client], self._turns_of_clients[client]


async def _decide_in_process(question: bytes) -> Verdict:
    """Return the verdict of a new process, or a refusal if it ends without one. Raises ReviewError."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__, str(MEMORY_BYTES), str(FABRIC_SECONDS)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},  # an entry point may have extended the path
    )
    try:
        async with asyncio.timeout(FABRIC_SECONDS):
            output, _ = await process.communicate(question)
    except TimeoutError:
        return Verdict(refusal=f"the Fabric could not be planned within {FABRIC_SECONDS:g} s: {_REMEDY}, or try again")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        return Verdict(refusal=_explain_end(process.returncode))
    answer = msgspec.json.decode(output, type=_FabricAnswer)
    if answer.verdict is None:
        raise ReviewError(answer.error)
    return answer.verdict


def _explain_end(status: int | None) -> str:
    """Return why a process ended without an answer; the status is negative if a signal ended it."""
    if status == _OUT_OF_MEMORY:
        return f"the Fabric could not be planned within {MEMORY_BYTES >> 20} MiB of memory: {_REMEDY}"
    return (
        f"the Fabric could not be reviewed: the review's process ended with status {status}; the webhook's log says "
        "why, if a signal did not end it (-9: too little memory for the webhook's pod); please report it to Trackbed"
    )


def _main(memory_bytes: int, seconds: float) -> None:
    """Answer the question on standard input, within limits that hold even if the webhook has ended."""
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    cpu_seconds = int(seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))
    try:
        output = _answer(sys.stdin.buffer.read())
    except MemoryError:
        os._exit(_OUT_OF_MEMORY)  # an orderly exit may need memory too
    sys.stdout.buffer.write(output)


def _answer(question: bytes) -> bytes:
    """Return the encoded answer to an encoded question."""
    try:
        answer = _FabricAnswer(decide_question(msgspec.json.decode(question, type=FabricQuestion)))
    except ReviewError as error:
        answer = _FabricAnswer(error=str(error))
    return msgspec.json.encode(answer)


if __name__ == "__main__":
    _main(int(sys.argv[1]), float(sys.argv[2]))
