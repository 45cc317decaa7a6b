"""Reviews of large objects in a thread, one after the other, so that they do not delay the reviews of others.

A review takes 10 ms for each 64 KiB of an object of many small fields, so up to a second for the largest request, and
nothing can interrupt it. The thread shares the interpreter with the event loop, which gets its turn within 5 ms
(sys.getswitchinterval), or after the current call of the JSON decoder.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from trackbed.cluster.daemon.connections import LARGE_BYTES
from trackbed.cluster.webhook.review import ReviewRequest, Verdict


class ReviewThread:
    """Runs reviews: those of large objects in the thread, all others at once in the event loop."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="large-review")

    async def run(self, request: ReviewRequest, decide: Callable[[], Verdict]) -> Verdict:
        """Return the verdict of `decide` on a request; raise its exceptions. A review that waits may be cancelled."""
        if len(request.object) + len(request.old_object) <= LARGE_BYTES:
            return decide()
        return await asyncio.get_running_loop().run_in_executor(self._executor, decide)

    def close(self) -> None:
        """Drop the reviews that wait, and end the thread after the current one."""
        self._executor.shutdown(wait=False, cancel_futures=True)
