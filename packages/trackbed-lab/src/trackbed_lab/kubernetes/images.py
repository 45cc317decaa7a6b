"""Container images of the lab, written as OCI archives; nothing is pulled.

    pause     one static program: the first container of every pod
    tools     busybox, iproute2, rdma-core and perftest with the libraries they need, for workloads
    product   Python and Trackbed (module product_image)
    proof     tools, and Python for the workers of a proof (module proof_image)

An archive is a tar of an image layout (OCI Image Format 1.1, image-layout.md) with one image of one layer. It is
reproducible: equal content gives equal bytes.
"""

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trackbed_lab.processes import run_program
from trackbed_lab.vm.parts import find_program

_LAYER, _CONFIG, _MANIFEST = (
    f"application/vnd.oci.image.{kind}" for kind in ("layer.v1.tar", "config.v1+json", "manifest.v1+json")
)
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
MERGED = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
"""Links of an image whose programs and libraries are all below usr."""
_SECONDS = 60
_PATH = "/usr/sbin:/usr/bin"

TOOLS = ("ip", "rdma", "ethtool", "ping", "ib_write_bw", "ib_write_lat", "rping", "ibv_devices", "ibv_devinfo")
"""Programs of iproute2, ethtool, iputils, perftest and rdma-core."""
APPLETS = ("sh", "cat", "env", "grep", "id", "ls", "sed", "sleep", "timeout", "head", "seq", "true", "wc")
"""Applets of busybox."""
_LOADED_AT_RUN_TIME = ("libgcc_s.so.1",)
"""Libraries that the C library loads when a thread is cancelled, as rping's are."""
USER = 1000
"""UID of a workload's container."""


class ImageError(Exception):
    """An image cannot be built; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class ImageSpec:
    """The content of an image by path: files of this machine, texts, symbolic links; its entrypoint and user."""

    name: str
    files: Mapping[str, Path]
    texts: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    entrypoint: Sequence[str] = ()
    user: str = ""
    data: Mapping[str, bytes] = field(default_factory=dict)
    """Files with content from memory."""


def build_pause_image(static: Path, name: str) -> ImageSpec:
    """Return the image of every pod's first container."""
    return ImageSpec(name, {"pause": static}, entrypoint=("/pause",))


def build_tools_image(root: Path, name: str) -> ImageSpec:
    """Return the image of workloads: programs below `root`, else this machine's. Raises ImageError, PartsError."""
    programs = {f"usr/bin/{tool}": find_program(root, tool).resolve() for tool in TOOLS}
    drivers = _find_drivers(root)
    loaded = [_find_library(root, name) for name in _LOADED_AT_RUN_TIME]
    libraries = find_libraries([*programs.values(), *drivers.values(), *loaded], root)
    libraries |= {f"{_LIBRARIES}/{path.name}": path.resolve() for path in loaded}
    users = f"root:x:0:0::/:/bin/sh\nuser:x:{USER}:{USER}::/:/bin/sh\n"
    return ImageSpec(
        name,
        {**programs, **drivers, **libraries, "usr/bin/busybox": find_program(root, "busybox")},
        {**_read_driver_file(root), "etc/passwd": users, "etc/group": f"root:x:0:\nuser:x:{USER}:\n"},
        {**MERGED, **{f"usr/bin/{applet}": "busybox" for applet in APPLETS}},
        ("/bin/sleep", "infinity"),
        str(USER),
    )


def _find_library(root: Path, name: str) -> Path:
    """Return the path of a library that is loaded by name. Raises ImageError."""
    for folder in (root / _LIBRARIES, Path("/", _LIBRARIES)):
        if (folder / name).exists():
            return folder / name
    raise ImageError(f"neither the fetched tools nor this machine have {name}")


def _find_drivers(root: Path) -> dict[str, Path]:
    """Return the drivers that libibverbs loads by name; no program is linked with them. Raises ImageError."""
    folders = (root / _LIBRARIES / "libibverbs", Path("/", _LIBRARIES, "libibverbs"))
    source = next((folder for folder in folders if folder.is_dir()), None)
    if source is None:
        raise ImageError("neither the fetched tools nor this machine have libibverbs' drivers")
    return {f"{_LIBRARIES}/libibverbs/{path.name}": path.resolve() for path in sorted(source.glob("librxe-*.so"))}


def _read_driver_file(root: Path) -> dict[str, str]:
    """Return the configuration by which libibverbs loads the driver of soft-RoCE."""
    path = root / "etc/libibverbs.d/rxe.driver"
    return {"etc/libibverbs.d/rxe.driver": path.read_text() if path.exists() else "driver rxe\n"}


def find_libraries(programs: Sequence[Path], root: Path) -> dict[str, Path]:
    """Return the shared libraries of programs and their loader, by path in an image (ldd(1)). Raises ImageError."""
    variables = {"LD_LIBRARY_PATH": str(root / _LIBRARIES), "LC_ALL": "C"}
    libraries: dict[str, Path] = {}
    for program in programs:
        output = _run_ldd(program, variables)
        if "not found" in output:
            raise ImageError(f"{program} lacks a library: {output.strip()}")
        for path in map(Path, re.findall(r"(?:=> )?(/\S+) \(0x", output)):
            folder = "usr/lib64" if path.name.startswith("ld-linux") else _LIBRARIES
            libraries[f"{folder}/{path.name}"] = path.resolve()
    return libraries


def _run_ldd(path: Path, variables: Mapping[str, str]) -> str:
    """Return the output of ldd, "" for a statically linked program. Raises ImageError."""
    process = run_program(["/usr/bin/ldd", str(path)], _SECONDS, ImageError, variables=variables)
    return process.stdout if "not a dynamic executable" not in process.stderr else ""


def pack_image(image: ImageSpec) -> bytes:
    """Encode an image as an OCI archive."""
    layer = _pack_tar(_iter_members(image))
    digest = _compute_digest(layer)
    settings = {"Entrypoint": list(image.entrypoint), "Env": [f"PATH={_PATH}"], "User": image.user}
    config = _encode_json(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": settings,
            "rootfs": {"type": "layers", "diff_ids": [digest]},
        }
    )
    manifest = _encode_json(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _build_descriptor(_CONFIG, config),
            "layers": [_build_descriptor(_LAYER, layer)],
        }
    )
    descriptor = {**_build_descriptor(_MANIFEST, manifest), "annotations": {"io.containerd.image.name": image.name}}
    files = {
        "oci-layout": _encode_json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _encode_json({"schemaVersion": 2, "manifests": [descriptor]}),
        **{f"blobs/sha256/{_compute_digest(blob)[7:]}": blob for blob in (layer, config, manifest)},
    }
    return _pack_tar((_build_entry(name, len(content), 0o644), content) for name, content in files.items())


def _build_descriptor(media_type: str, content: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": _compute_digest(content), "size": len(content)}


def _compute_digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _encode_json(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def _iter_members(image: ImageSpec) -> Iterable[tuple[tarfile.TarInfo, bytes]]:
    """Yield the folders, parents first, then links, texts and files, each sorted by path."""
    names = [*image.links, *image.texts, *image.data, *image.files]
    for folder in sorted({str(parent) for name in names for parent in Path(name).parents if parent != Path()}):
        entry = _build_entry(folder, 0, 0o755)
        entry.type = tarfile.DIRTYPE
        yield entry, b""
    for name, target in sorted(image.links.items()):
        entry = _build_entry(name, 0, 0o777)
        entry.type, entry.linkname = tarfile.SYMTYPE, target
        yield entry, b""
    for name, text in sorted(image.texts.items()):
        mode = 0o755 if name.startswith("usr/bin/") else 0o644
        yield _build_entry(name, len(text.encode()), mode), text.encode()
    for name, content in sorted(image.data.items()):
        yield _build_entry(name, len(content), 0o644), content
    for name, path in sorted(image.files.items()):
        content = path.read_bytes()
        yield _build_entry(name, len(content), 0o755), content


def _build_entry(name: str, size: int, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, mode
    return entry


def _pack_tar(members: Iterable[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for entry, content in members:
            tar.addfile(entry, io.BytesIO(content))
    return output.getvalue()
