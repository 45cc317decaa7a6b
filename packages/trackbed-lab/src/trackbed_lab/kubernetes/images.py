"""Container images that the lab writes itself, as OCI archives: nothing is pulled.

    pause     one static program: the first container of every pod
    tools     busybox, iproute2, rdma-core and perftest with the libraries they need, for workloads
    own       Python and Trackbed (module own_image)

An archive is a tar of an image layout (OCI Image Format 1.1, image-layout.md) with one image of one layer; the same
content gives the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import subprocess
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trackbed_lab.vm.parts import find_program

_LAYER, _CONFIG, _MANIFEST = (
    f"application/vnd.oci.image.{kind}" for kind in ("layer.v1.tar", "config.v1+json", "manifest.v1+json")
)
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_MERGED = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
_SECONDS = 60
_PATH = "/usr/sbin:/usr/bin"

TOOLS = ("ip", "rdma", "ethtool", "ping", "ib_write_bw", "rping", "ibv_devices", "ibv_devinfo")
"""Of iproute2, ethtool, iputils, perftest, rdma-core."""
APPLETS = ("sh", "cat", "env", "grep", "id", "ls", "sed", "sleep", "timeout", "head", "seq", "true", "wc")
"""Of busybox."""
_LOADED_LATE = ("libgcc_s.so.1",)
"""What the C library loads when a thread is cancelled, as rping's are."""
USER = 1000
"""Who a workload's container runs as."""


class ImageError(Exception):
    """An image cannot be made; the message says what is lacking."""


@dataclass(frozen=True, slots=True)
class Image:
    """What is in an image: files of this machine by their path there, texts, links, and what is started."""

    name: str
    files: Mapping[str, Path]
    texts: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    start: Sequence[str] = ()
    user: str = ""
    data: Mapping[str, bytes] = field(default_factory=dict)
    """Files that are on no disk."""


def pause(static: Path, name: str) -> Image:
    """The image of every pod's first container."""
    return Image(name, {"pause": static}, start=("/pause",))


def tools(root: Path, name: str) -> Image:
    """The image of workloads: programs below `root`, else this machine's. Raises ImageError, PartsError."""
    programs = {f"usr/bin/{one}": find_program(root, one).resolve() for one in TOOLS}
    drivers = _drivers(root)
    loaded = [_library(root, one) for one in _LOADED_LATE]
    needed = libraries([*programs.values(), *drivers.values(), *loaded], root)
    needed |= {f"{_LIBRARIES}/{path.name}": path.resolve() for path in loaded}
    users = f"root:x:0:0::/:/bin/sh\nuser:x:{USER}:{USER}::/:/bin/sh\n"
    return Image(
        name,
        {**programs, **drivers, **needed, "usr/bin/busybox": find_program(root, "busybox")},
        {**_driver_names(root), "etc/passwd": users, "etc/group": f"root:x:0:\nuser:x:{USER}:\n"},
        {**_MERGED, **{f"usr/bin/{one}": "busybox" for one in APPLETS}},
        ("/bin/sleep", "infinity"),
        str(USER),
    )


def _library(root: Path, name: str) -> Path:
    """A library that is loaded by name. Raises ImageError."""
    for folder in (root / _LIBRARIES, Path("/", _LIBRARIES)):
        if (folder / name).exists():
            return folder / name
    raise ImageError(f"neither the fetched tools nor this machine have {name}")


def _drivers(root: Path) -> dict[str, Path]:
    """What libibverbs loads by name for each kind of device; no program is linked with it."""
    folders = (root / _LIBRARIES / "libibverbs", Path("/", _LIBRARIES, "libibverbs"))
    found = next((folder for folder in folders if folder.is_dir()), None)
    if found is None:
        raise ImageError("neither the fetched tools nor this machine have libibverbs' drivers")
    return {f"{_LIBRARIES}/libibverbs/{path.name}": path.resolve() for path in sorted(found.glob("librxe-*.so"))}


def _driver_names(root: Path) -> dict[str, str]:
    own = root / "etc/libibverbs.d/rxe.driver"
    return {"etc/libibverbs.d/rxe.driver": own.read_text() if own.exists() else "driver rxe\n"}


def libraries(programs: Sequence[Path], root: Path) -> dict[str, Path]:
    """All shared libraries that programs need, and their loader, by path in an image (ldd(1)). Raises ImageError."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(root / _LIBRARIES), "LC_ALL": "C"}
    found: dict[str, Path] = {}
    for one in programs:
        told = _ldd(one, environment)
        if "not found" in told:
            raise ImageError(f"{one} lacks a library: {told.strip()}")
        for line in re.findall(r"(?:=> )?(/\S+) \(0x", told):
            place = Path(line)
            inside = f"usr/lib64/{place.name}" if place.name.startswith("ld-linux") else f"{_LIBRARIES}/{place.name}"
            found[inside] = place.resolve()
    return found


def _ldd(path: Path, environment: Mapping[str, str]) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - Debian's own programs
            ["/usr/bin/ldd", str(path)],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ImageError(f"ldd {path}: {error}") from error
    return done.stdout if "not a dynamic executable" not in done.stderr else ""


def archive(image: Image) -> bytes:
    """An image as an OCI archive."""
    layer = _tar(_members(image))
    digest = _digest(layer)
    started = {"Entrypoint": list(image.start), "Env": [f"PATH={_PATH}"], "User": image.user}
    config = _json(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": started,
            "rootfs": {"type": "layers", "diff_ids": [digest]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _described(_CONFIG, config),
            "layers": [_described(_LAYER, layer)],
        }
    )
    named = {**_described(_MANIFEST, manifest), "annotations": {"io.containerd.image.name": image.name}}
    blobs = {f"blobs/sha256/{_digest(one)[7:]}": one for one in (layer, config, manifest)}
    files = {"oci-layout": _json({"imageLayoutVersion": "1.0.0"}), "index.json": _json(_index(named)), **blobs}
    return _tar((_file(name, len(content), 0o644), content) for name, content in files.items())


def _index(named: Mapping[str, object]) -> dict[str, object]:
    return {"schemaVersion": 2, "manifests": [named]}


def _described(kind: str, content: bytes) -> dict[str, object]:
    return {"mediaType": kind, "digest": _digest(content), "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _json(what: object) -> bytes:
    return json.dumps(what, separators=(",", ":"), sort_keys=True).encode()


def _members(image: Image) -> Iterable[tuple[tarfile.TarInfo, bytes]]:
    """Folders before what is in them; then links, texts and files by path."""
    names = [*image.links, *image.texts, *image.data, *image.files]
    for folder in sorted({str(up) for name in names for up in Path(name).parents if up != Path()}):
        entry = _file(folder, 0, 0o755)
        entry.type = tarfile.DIRTYPE
        yield entry, b""
    for name, target in sorted(image.links.items()):
        entry = _file(name, 0, 0o777)
        entry.type, entry.linkname = tarfile.SYMTYPE, target
        yield entry, b""
    for name, text in sorted(image.texts.items()):
        yield _file(name, len(text.encode()), 0o755 if name.startswith("usr/bin/") else 0o644), text.encode()
    for name, content in sorted(image.data.items()):
        yield _file(name, len(content), 0o644), content
    for name, path in sorted(image.files.items()):
        content = path.read_bytes()
        yield _file(name, len(content), 0o755), content


def _file(name: str, size: int, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, mode
    return entry


def _tar(members: Iterable[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for entry, content in members:
            tar.addfile(entry, io.BytesIO(content))
    return whole.getvalue()
