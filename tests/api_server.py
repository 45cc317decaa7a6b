"""A real API server for tests, with the CRDs of the folder that TRACKBED_CRDS names: one for the whole run of pytest.

Etcd and API server are built once and kept (`trackbed_lab.kubernetes.build`); without controllers an object stays as
it was sent. Without CRDs the tests that need them are skipped with that reason, also with CI=true: the CRDs are other
people's and no part of the project. `tests/crds/fetch.py` fetches them; where TRACKBED_CRDS is set, they must be there.
"""

from __future__ import annotations

import copy
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from trackbed_lab.kubernetes import build, control_plane, crds
from trackbed_lab.kubernetes.blocking import BlockingClient, connect
from trackbed_lab.kubernetes.programs import CONTROL_PLANE, HELM

from trackbed.cluster.api.errors import ApiRefusedError, UnknownKindError
from trackbed.cluster.api.response import Object

ROOT = Path(__file__).parents[1]
MODULES = Path(__file__).parent / "crds"
"""Go modules that carry CRDs of OpenShift and cert-manager; their text is fetched when it is needed, not kept."""


needs_crds = pytest.mark.may_skip("upstream's CRDs are not part of the project (TRACKBED_CRDS)")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let the tests that need CRDs be skipped, whichever fixture brings them."""
    if "cluster" in getattr(item, "fixturenames", ()):
        item.add_marker(needs_crds)


def crds_folder() -> Path:
    """The folder of upstream CRDs; skips where there is none, and fails where TRACKBED_CRDS names none."""
    named = os.environ.get("TRACKBED_CRDS")
    folder = Path(named or ROOT.parent / "shared" / "crds")
    if named and not folder.is_dir():
        pytest.fail(f"TRACKBED_CRDS is {named}, which is no folder")
    if not folder.is_dir():
        pytest.skip(f"needs upstream CRDs: {folder} does not exist; TRACKBED_CRDS names their folder")
    return folder


@pytest.fixture(scope="session")
def control_plane_programs() -> Path:
    """The folder with the programs of a control plane, built once."""
    return build.build_programs(CONTROL_PLANE, print)


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory, control_plane_programs: Path) -> Iterator[Path]:
    """The kubeconfig of an API server without CRDs of others; it dies with pytest."""
    folder = tmp_path_factory.mktemp("control-plane")
    with control_plane.run_control_plane(folder, control_plane_programs, controllers=False) as kubeconfig:
        yield kubeconfig


@pytest.fixture(scope="session")
def helm() -> str:
    """The program helm, built once."""
    return str(build.build_programs(HELM, print) / "helm")


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[BlockingClient]:
    """A client of an API server that knows every kind that is rendered."""
    folder = crds_folder()
    with connect(str(request.getfixturevalue("api_server"))) as client:
        crds.load_crds(client, folder)
        for crd_folder in _openshift_crds():
            crds.load_crds(client, crd_folder)
        yield client


def _openshift_crds() -> Iterator[Path]:
    """Folders with the CRDs of the Operator Lifecycle Manager and of security context constraints."""
    wanted = ("github.com/operator-framework/api", "github.com/openshift/api")
    for module, folder in zip(fetched(*wanted), ("crds", "security/v1/zz_generated.crd-manifests"), strict=True):
        yield module / folder


def fetched(*modules: str) -> list[Path]:
    """The folders of Go modules that tests/crds names."""
    quiet = {**os.environ, "GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local", "GOWORK": "off"}
    subprocess.run(["go", "mod", "download", *modules], cwd=MODULES, env=quiet, check=True, timeout=300)
    argv = ["go", "list", "-m", "-f", "{{.Dir}}", *modules]
    download = subprocess.run(argv, cwd=MODULES, env=quiet, check=True, timeout=60, capture_output=True, text=True)
    return [Path(line) for line in download.stdout.splitlines()]


def accepted(client: BlockingClient, objects: list[Object]) -> list[str]:
    """Create all objects for real, strictly; what was refused or warned of. They are removed again."""
    for name in sorted(_namespaces(objects)):
        _namespace(client, name)
    others = [body for body in objects if body["kind"] != "Namespace"]
    try:
        with ThreadPoolExecutor(4) as pool:
            return [
                problem
                for problems_of_one in pool.map(lambda body: _create(client, body), others)
                for problem in problems_of_one
            ]
    finally:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda body: _delete(client, body), others))


def refused(client: BlockingClient, body: Object) -> bool:
    """Whether the server refuses an object, tried without keeping it."""
    _namespace(client, body["metadata"].get("namespace") or "default")
    try:
        client.create(body, dry_run=True)
    except ApiRefusedError as error:
        return error.status in {400, 422}
    return False


def with_unknown_field(body: Object) -> Object:
    """The object with a field that no kind has."""
    return copy.deepcopy(body) | {"trackbedHasNoSuchField": True}


def with_wrong_type(body: Object) -> Object:
    """The object with a list where its first section, or its labels, must be a mapping."""
    spoiled = copy.deepcopy(body)
    sections = [key for key in body if key not in {"apiVersion", "kind", "metadata"}]
    if sections and isinstance(body[sections[0]], dict):
        spoiled[sections[0]] = ["not", "a", "mapping"]
    else:
        spoiled["metadata"]["labels"] = ["not", "a", "mapping"]
    return spoiled


def _namespaces(objects: list[Object]) -> set[str]:
    named = {body["metadata"]["name"] for body in objects if body["kind"] == "Namespace"}
    return named | {body["metadata"]["namespace"] for body in objects if body["metadata"].get("namespace")}


def _namespace(client: BlockingClient, name: str) -> None:
    """A namespace; it stays: without a controller it would never go away."""
    body: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    try:
        client.create(body)
    except ApiRefusedError as error:
        if error.reason != "AlreadyExists":
            raise


def _create(client: BlockingClient, body: Object) -> list[str]:
    try:
        return [f"{body['kind']}/{body['metadata'].get('name')}: {text}" for text in client.create(body).warnings]
    except (ApiRefusedError, UnknownKindError) as error:
        return [str(error)]


def _delete(client: BlockingClient, body: Object) -> None:
    try:
        client.delete(body)
    except UnknownKindError:
        return
