"""Images of other stacks' programs, under the names that their operators ask for.

A program's image has the program where the original image has it. Where the original starts by a script, the lab has
one of its own, which takes the same options.
"""

from collections.abc import Mapping
from pathlib import Path

from trackbed_lab.kubernetes.images import MERGED, ImageSpec, find_libraries
from trackbed_lab.vm.parts import find_program

NOBODY = "65532"
"""UID of controllers that must not run as root."""

_APPLETS = (
    "sh awk base64 cat cp chmod chroot date echo env flock grep head ln ls md5sum mkdir mount mv nsenter printf "
    "readlink rm sed sleep test touch tr true uname which"
)
SLEEP = "exec sleep 2147483647\n"


def build_program_image(name: str, programs: Mapping[str, Path], user: str = "") -> ImageSpec:
    """Return an image of static programs by their paths in it."""
    return ImageSpec(name, programs, links=MERGED, user=user)


def build_script_image(
    name: str, tools: Path, start: str, programs: Mapping[str, Path], scripts: Mapping[str, str] | None = None
) -> ImageSpec:
    """Return an image that starts by the shell script `start`; other scripts are below usr/bin."""
    texts = {"usr/bin/start": start, **{f"usr/bin/{key}": text for key, text in (scripts or {}).items()}}
    files = {**programs, "usr/bin/busybox": find_program(tools, "busybox")}
    links = {**MERGED, **{f"usr/bin/{applet}": "busybox" for applet in _APPLETS.split()}}
    return ImageSpec(name, files, texts, links, ("/usr/bin/start",))


def build_bash_image(name: str, tools: Path, programs: Mapping[str, Path]) -> ImageSpec:
    """Return an image whose shell is bash, with GNU grep, and coreutils of busybox."""
    gnu = {f"usr/bin/{program}": find_program(tools, program).resolve() for program in ("bash", "grep")}
    files = {**programs, **find_libraries(list(gnu.values()), tools), **gnu}
    image = build_script_image(name, tools, "", files)
    links = {path: target for path, target in image.links.items() if path not in gnu}
    return ImageSpec(name, image.files, {}, {**links, "usr/bin/sh": "bash"})
