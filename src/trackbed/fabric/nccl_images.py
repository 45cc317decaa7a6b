"""Public images whose NCCL cannot find its GID in the pods of a shared port.

Each macvlan adds its GIDs to the table of its port, so a pod sees a table with gaps. NCCL from 2.21 on searches the
table, and before 2.26.2 ended the job at the first gap: reading its type gives EINVAL (ncclIbRoceGetVersionNum of
NVIDIA/nccl, v2.25.1-1 and f44ac759; issue 1573).
"""

import re

FIRST_FIT = "2.26.2"
"""The first version of NCCL that skips gaps."""

_NGC = re.compile(r"nvcr\.io/nvidia/(?:pytorch|nemo|jax|tensorflow|tritonserver):(\d\d)\.(\d\d)(?!\d)")
_PYTORCH = re.compile(r"(?:docker\.io/)?pytorch/pytorch:(\d{1,4})\.(\d{1,4})")
_FIRST_IMAGES = ((_NGC, (25, 4)), (_PYTORCH, (2, 7)))
"""Pattern of an image's name and version -> the first version with FIRST_FIT or newer (NGC's framework support matrix;
pytorch/pytorch pull request 149778)."""


def has_old_nccl(image: str) -> bool:
    """Return whether an image is known to have an NCCL older than FIRST_FIT; False for unknown images."""
    matches = ((pattern.match(image), first) for pattern, first in _FIRST_IMAGES)
    return any(match is not None and (int(match[1]), int(match[2])) < first for match, first in matches)
