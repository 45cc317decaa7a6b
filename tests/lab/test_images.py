"""Images that the lab writes itself, read as another program would: the OCI image layout, unpacked."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from trackbed_lab.kubernetes import images
from trackbed_lab.kubernetes.images import ImageSpec
from trackbed_lab.vm.parts import PartsError


def members(archive: bytes) -> dict[str, bytes]:
    """All files of a tar."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        streams = {entry.name: tar.extractfile(entry) for entry in tar}
        return {name: stream.read() for name, stream in streams.items() if stream}


def unpacked(archive: bytes, folder: Path) -> dict[str, object]:
    """Check every digest, unpack the layer into `folder`; the image's configuration."""
    outer = members(archive)

    def blob(described: dict[str, Any]) -> bytes:
        content = outer[f"blobs/sha256/{described['digest'][7:]}"]
        assert described["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
        assert described["size"] == len(content)
        return content

    index = json.loads(outer["index.json"])
    manifest = json.loads(blob(index["manifests"][0]))
    config: dict[str, object] = json.loads(blob(manifest["config"]))
    layer = blob(manifest["layers"][0])
    assert config["rootfs"] == {"type": "layers", "diff_ids": [manifest["layers"][0]["digest"]]}
    with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
        tar.extractall(folder, filter="tar")
    return config | {"name": index["manifests"][0]["annotations"]["io.containerd.image.name"]}


def test_an_image_has_its_files_links_and_what_is_started(tmp_path: Path) -> None:
    (tmp_path / "program").write_text("#!/bin/sh\n")
    image = ImageSpec(
        "lab/x:1", {"usr/bin/x": tmp_path / "program"}, {"etc/y": "z"}, {"bin": "usr/bin"}, ("/bin/x",), "7"
    )
    config = unpacked(images.pack_image(image), tmp_path / "root")
    assert config["config"] == {"Entrypoint": ["/bin/x"], "Env": ["PATH=/usr/sbin:/usr/bin"], "User": "7"}
    assert config["name"] == "lab/x:1"
    assert (tmp_path / "root/bin/x").read_text() == "#!/bin/sh\n"
    assert os.access(tmp_path / "root/usr/bin/x", os.X_OK)
    assert (tmp_path / "root/etc/y").read_text() == "z"


def test_the_same_content_gives_the_same_archive(tmp_path: Path) -> None:
    (tmp_path / "program").write_text("x")
    first = images.pack_image(images.build_pause_image(tmp_path / "program", "a:1"))
    os.utime(tmp_path / "program", (1, 1))
    assert images.pack_image(images.build_pause_image(tmp_path / "program", "a:1")) == first


@pytest.mark.needs("ldd", "chroot", "root")
def test_a_program_runs_with_the_libraries_that_were_found(tmp_path: Path) -> None:
    program = Path("/usr/bin/env").resolve()
    needed = images.find_libraries([program], tmp_path)
    links = {"lib64": "usr/lib64", "lib": "usr/lib"}
    unpacked(images.pack_image(ImageSpec("e:1", {"env": program, **needed}, {}, links)), tmp_path / "root")
    done = subprocess.run(
        ["chroot", str(tmp_path / "root"), "/env", "-i", "A=1"], capture_output=True, text=True, timeout=20, check=False
    )
    assert (done.returncode, done.stdout) == (0, "A=1\n")


def test_a_program_that_is_nowhere_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "TOOLS", ("no-such-program",))
    with pytest.raises(PartsError, match="neither this machine nor the fetched packages have no-such-program"):
        images.build_tools_image(tmp_path, "t:1")
