"""What a release offers, tried in a clean environment: it installs, it runs, and the source archives give the same."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from trackbed import __version__
from trackbed.node.rails.install import BUILT_EXECUTABLE

ROOT = Path(__file__).parents[1]
EXECUTABLE = Path("src/trackbed") / BUILT_EXECUTABLE.relative_to(BUILT_EXECUTABLE.parents[2])
MAX_MIB = 120

pytestmark = [pytest.mark.slow, pytest.mark.needs("go", "git")]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that scripts/dist fills with what the last commit gives."""
    folder = tmp_path_factory.mktemp("release")
    subprocess.run([str(ROOT / "scripts" / "dist"), str(folder)], check=True, capture_output=True, timeout=300)
    return folder


@pytest.fixture(scope="module")
def programs(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment that has the wheels of the release and what they ask for."""
    place = tmp_path_factory.mktemp("clean")
    uv = f"{sys.prefix}/bin/uv"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(place)], check=True, timeout=60)
    index = os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("PIP_INDEX_URL")
    subprocess.run(
        [uv, "pip", "install", "--quiet", "--python", str(place / "bin" / "python"), *map(str, release.glob("*.whl"))],
        env={**os.environ, **({"UV_DEFAULT_INDEX": index} if index else {})},
        cwd=place,
        check=True,
        timeout=300,
    )
    return place / "bin"


def test_a_release_has_both_distributions_as_wheel_and_as_source(release: Path) -> None:
    names = {f"{name}-{__version__}" for name in ("trackbed", "trackbed_lab")}
    assert {path.name for path in release.glob("*.whl")} == {f"{name}-py3-none-any.whl" for name in names}
    assert {path.name for path in release.glob("*.tar.gz")} == {f"{name}.tar.gz" for name in names}
    assert len((release / "SHA256SUMS").read_text().splitlines()) == 5


@pytest.mark.parametrize("name", ["trackbed", "trackbed_lab"])
def test_a_source_archive_gives_the_wheel_that_is_beside_it(release: Path, tmp_path: Path, name: str) -> None:
    with tarfile.open(release / f"{name}-{__version__}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    [source] = tmp_path.iterdir()
    if name == "trackbed":
        options = ["-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", str(source / EXECUTABLE)]
        variables = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}
        folder = source / EXECUTABLE.parent / "go"
        subprocess.run(
            ["go", "build", *options, "."], cwd=folder, env={**os.environ, **variables}, check=True, timeout=300
        )
    argv = [f"{sys.prefix}/bin/hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(argv, cwd=source, check=True, capture_output=True, timeout=120)
    [wheel] = tmp_path.glob("*.whl")
    assert wheel.read_bytes() == (release / wheel.name).read_bytes()


def test_what_is_installed_runs_and_completes(programs: Path) -> None:
    assert _run(programs, "--version") == f"trackbed, version {__version__}\n"
    assert "_trackbed_completion" in _run(programs, _TRACKBED_COMPLETE="bash_source")
    words = {"COMP_WORDS": "trackbed lab ru", "COMP_CWORD": "2", "_TRACKBED_COMPLETE": "bash_complete"}
    assert _run(programs, **words) == "plain,run\n"


def test_the_lab_runs_from_what_is_installed(programs: Path, tmp_path: Path) -> None:
    done = _run(programs, "lab", "run", "--report", str(tmp_path / "report.html"))
    assert "as planned" in done
    assert (tmp_path / "report.html").stat().st_size > 0


def test_an_installation_is_small(programs: Path) -> None:
    [packages] = programs.parent.glob("lib/python*/site-packages")
    files = [path for path in packages.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert sum(path.stat().st_size for path in files) < MAX_MIB << 20


def _run(programs: Path, *words: str, **variables: str) -> str:
    """Return what the installed program prints; the checkout is on no path of it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(programs / "trackbed"), *words],
        env={**environment, **variables},
        cwd=programs,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
