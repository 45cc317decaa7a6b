"""The image of the Containerfile, built here, and what nodes run where it cannot be built."""

from __future__ import annotations

import json
import re
import subprocess
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
from trackbed_lab.kubernetes import built_image
from trackbed_lab.kubernetes.images import ImageError

ROOT = Path(__file__).parents[2]
NAME = "ghcr.io/trackbed/agent:test"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The root folder of the built image, and its configuration; the first build takes minutes."""
    folder = tmp_path_factory.mktemp("image")
    built_image.build_archive(folder / "image.tar", NAME)
    (folder / "layout").mkdir()
    (folder / "root").mkdir()
    with tarfile.open(folder / "image.tar") as archive:
        archive.extractall(folder / "layout", filter="data")
    [descriptor] = json.loads((folder / "layout/index.json").read_text())["manifests"]
    assert descriptor["annotations"]["org.opencontainers.image.ref.name"] == NAME
    manifest = json.loads(read_blob(folder, descriptor))
    for layer in manifest["layers"]:
        argv = ["tar", "--extract", "--gzip", "--directory", str(folder / "root")]
        subprocess.run(argv, input=read_blob(folder, layer), check=True, timeout=300)
    return folder / "root", json.loads(read_blob(folder, manifest["config"]))["config"]


def read_blob(folder: Path, descriptor: dict[str, str]) -> bytes:
    return (folder / "layout/blobs" / descriptor["digest"].replace(":", "/")).read_bytes()


def run_in(root: Path, *argv: str) -> str:
    """Run a program in the image, as the pods on nodes do."""
    path = {"PATH": "/opt/trackbed/bin:/usr/bin:/usr/sbin:/bin"}
    done = subprocess.run(["chroot", root, *argv], capture_output=True, text=True, timeout=300, check=True, env=path)
    return done.stdout


@pytest.mark.nightly("an image is built")
@pytest.mark.needs("root", *built_image.PROGRAMS)
def test_its_label_says_that_its_bases_are_local_ones(image: tuple[Path, dict[str, Any]]) -> None:
    _, config = image
    assert config["Labels"]["dev.trackbed.bases"].startswith("local: Debian trixie by mmdebstrap, go version go1.")
    assert config["Labels"]["org.opencontainers.image.base.name"].startswith("localhost/trackbed/trixie-")
    assert (config["User"], config["Entrypoint"]) == ("65532:65532", ["trackbed"])


@pytest.mark.nightly("an image is built")
@pytest.mark.needs("root", *built_image.PROGRAMS)
def test_every_program_runs_on_nothing_but_it(image: tuple[Path, dict[str, Any]]) -> None:
    root, _ = image
    for words in (["agent", "run"], ["agent", "prepare"], ["controller"], ["webhook"], ["uninstall"]):
        assert run_in(root, "trackbed", *words, "--help").startswith(f"Usage: trackbed {' '.join(words)}")
    everything = "import trackbed.node.rails.agent, trackbed.node.rails.kubelet.plugin, trackbed.node.sync.preparer"
    everything += "; import trackbed.cluster.controller.run, trackbed.cluster.webhook.run"
    everything += "; from trackbed.fleet import archive; archive.pack_sources(), archive.pack_compiled()"
    run_in(root, "/opt/trackbed/bin/python", "-IS", "-c", "import sys")
    run_in(root, "/opt/trackbed/bin/python", "-I", "-c", everything)
    assert run_in(root, "nsenter", "--version").startswith("nsenter from util-linux")


@pytest.mark.nightly("an image is built")
@pytest.mark.needs("root", *built_image.PROGRAMS)
def test_it_holds_the_locked_packages_and_names_them(image: tuple[Path, dict[str, Any]]) -> None:
    root, _ = image
    locked = {package["name"]: package for package in tomllib.loads((ROOT / "uv.lock").read_text())["package"]}
    folders = [path.name for path in (root / "opt/trackbed").glob("lib/python3*/site-packages/*.dist-info")]
    pairs = (folder.removesuffix(".dist-info").split("-") for folder in folders)
    installed = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pairs}
    assert installed.pop("trackbed")
    assert installed == {name: locked[name]["version"] for name in installed}
    sbom = json.loads((root / "opt/trackbed/sbom.cdx.json").read_text())
    named = {part["name"]: part for part in sbom["components"]}
    assert sbom["bomFormat"] == "CycloneDX"
    assert installed.keys() <= named.keys()
    assert {part["purl"] for part in named.values()} >= {f"pkg:pypi/{name}@{installed[name]}" for name in installed}
    assert "pytest" not in named


@pytest.mark.nightly("an image is built")
@pytest.mark.needs("root", *built_image.PROGRAMS)
def test_it_holds_no_device_and_compiled_modules_of_everything(image: tuple[Path, dict[str, Any]]) -> None:
    root, _ = image
    assert [path for path in root.rglob("*") if path.is_block_device() or path.is_char_device()] == []
    sources = list((root / "opt/trackbed").rglob("trackbed/**/*.py"))
    assert len(sources) > 500
    assert [path for path in sources if not list(path.parent.glob(f"__pycache__/{path.stem}.*.pyc"))] == []


OBSTACLES = {
    "it is installed": ("SCRIPT", Path("/none"), "this Trackbed is installed, and only a checkout has a Containerfile"),
    "a program is missing": (
        "PROGRAMS",
        ("sh", "buildah-of-nobody"),
        "buildah-of-nobody missing on PATH (Debian: apt-get install buildah-of-nobody)",
    ),
}


@pytest.mark.needs("root")
@pytest.mark.parametrize(("name", "value", "reason"), OBSTACLES.values(), ids=OBSTACLES)
def test_where_it_cannot_be_built_nodes_run_another_and_the_reason_is_told(
    name: str, value: object, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(built_image, name, value)
    lines: list[str] = []
    built_image.write_product_archive(tmp_path / "x.tar", NAME, tmp_path, Path("/bin/true"), lines.append)
    assert lines == [f"nodes run an image that the lab writes itself, not that of the Containerfile: {reason}"]
    assert tarfile.is_tarfile(tmp_path / "x.tar")


@pytest.mark.needs("root")
def test_a_build_that_fails_is_told_with_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "image"
    script.write_text("#!/bin/sh\necho first >&2\necho no space left >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setattr(built_image, "SCRIPT", script)
    monkeypatch.setattr(built_image, "PROGRAMS", ())
    with pytest.raises(ImageError, match="image failed: no space left"):
        built_image.build_archive(tmp_path / "x.tar", NAME)
