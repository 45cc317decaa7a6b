"""Trackbed's image as an archive for nodes: the one of the Containerfile, which `scripts/image` builds.

    checkout, root, buildah and mmdebstrap are there    the image that is published, on bases that are made here
    one of them is missing, or the build fails          an image that the lab writes itself (product_image)

A report says which one the nodes run, and in the second case why.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import trackbed
from trackbed_lab.kubernetes.images import ImageError, pack_image
from trackbed_lab.kubernetes.product_image import build_product_image
from trackbed_lab.processes import run_program

SCRIPT = Path(trackbed.__file__).parents[2] / "scripts/image"
"""The script in the checkout; an installed Trackbed has none."""

PROGRAMS = ("buildah", "mmdebstrap")

BUILD_SECONDS = 1800
"""Limit for a build. The first one takes some 4 minutes on two idle cores, later ones some seconds."""


def write_product_archive(path: Path, name: str, tools: Path, shim: Path, report: Callable[[str], None]) -> None:
    """Write Trackbed's image as an OCI archive. Raises ImageError.

    Without a build, shared libraries come from below `tools`, else from this machine; `shim` is the CNI executable.
    """
    try:
        build_archive(path, name)
        report(f"nodes run the image of {SCRIPT.parents[1] / 'Containerfile'}, built here")
    except ImageError as error:
        report(f"nodes run an image that the lab writes itself, not that of the Containerfile: {error}")
        path.write_bytes(pack_image(build_product_image(tools, name, shim)))


def build_archive(path: Path, name: str) -> None:
    """Build the image of the Containerfile and write it as an OCI archive. Raises ImageError."""
    if reason := _find_obstacle():
        raise ImageError(reason)
    process = run_program([str(SCRIPT), "--local", "--name", name, "-o", str(path)], BUILD_SECONDS, ImageError)
    if process.returncode:
        lines = process.stderr.strip().splitlines() or [f"status {process.returncode}"]
        raise ImageError(f"{SCRIPT} failed: {lines[-1]}")


def _find_obstacle() -> str:
    """Return why the image cannot be built on this machine, "" if it can."""
    if not SCRIPT.exists():
        return "this Trackbed is installed, and only a checkout has a Containerfile"
    if os.geteuid() != 0:
        return "only root can build it"
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    return f"{' and '.join(missing)} missing on PATH (Debian: apt-get install {' '.join(missing)})" if missing else ""
