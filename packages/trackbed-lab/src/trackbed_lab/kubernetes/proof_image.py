"""The image of a proof's pods: the tools of workloads, and a Python, whose program comes with the pod.

All programs load idle_poll.so first (ld.so(8), /etc/ld.so.preload).
"""

from dataclasses import replace
from pathlib import Path

from trackbed_lab.kubernetes.idle_poll import build_idle_poll
from trackbed_lab.kubernetes.images import ImageSpec, build_tools_image, find_libraries
from trackbed_lab.kubernetes.product_image import PYTHON, collect_standard_library, find_python

PROOF_IMAGE = "lab.trackbed.dev/proof:1"
_IDLE_POLL = "usr/lib/idle_poll.so"


def build_proof_image(root: Path) -> ImageSpec:
    """Return the image: programs below `root`, else this machine's. Raises ImageError, PartsError."""
    tools = build_tools_image(root, PROOF_IMAGE)
    python, library = find_python()
    modules = collect_standard_library(library)
    native = [path for path in modules.values() if ".so" in path.name]
    files = {**find_libraries([python, *native], root), f"usr/bin/{PYTHON}": python, **modules}
    return replace(
        tools,
        files={**files, **tools.files},
        texts={**tools.texts, "etc/ld.so.preload": f"/{_IDLE_POLL}\n"},
        data={**tools.data, _IDLE_POLL: build_idle_poll()},
    )
