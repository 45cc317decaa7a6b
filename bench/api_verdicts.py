"""`scripts/bench verdicts DIR`: what a real API server says of each manifest of a folder, beside lint's schemas.

Every object whose kind has a schema is created strictly, as a dry run; Kubernetes' own kinds and the CRDs of the folder
that `--crds` or TRACKBED_CRDS names are served. Templates and patches of objects are counted and left out. A refusal
for a reason that no schema holds (Kubernetes' validation in code, CEL) is no disagreement.
"""

import os
import random
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from trackbed_lab.kubernetes import build, control_plane, crds
from trackbed_lab.kubernetes.blocking import BlockingClient, connect
from trackbed_lab.kubernetes.programs import CONTROL_PLANE

from tests.verdicts import judge, spoil
from trackbed.cluster.api.errors import KubeError, UnknownKindError
from trackbed.fabric.model.problems import SpecError
from trackbed.lint.corpus import index_documents
from trackbed.lint.document import MANIFEST_ENDINGS, Document
from trackbed.lint.manifests import parse_manifests
from trackbed.lint.run import lint
from trackbed.lint.schemas.crds import Schemas, index_crds

_SHARED_CRDS = Path(__file__).parents[2] / "shared" / "crds"
_LEFT_OUT = frozenset({"template", "partial-object", "no-schema"})
_DISAGREEMENTS = frozenset({"only lint refuses", "only the API server refuses"})


def measure(folder: Path, crd_folder: Path | None, mutations: int, seed: int) -> int:
    """Print how often API server and schemas agree, and each disagreement; return 1 if there is one, else 0.

    With `mutations`, also on that many objects with one mistake each.
    """
    crd_folder = crd_folder or Path(os.environ.get("TRACKBED_CRDS") or _SHARED_CRDS)
    schemas, counts = index_crds(), Counter[str]()
    documents = list(_iter_documents(folder, schemas, counts))
    with (
        tempfile.TemporaryDirectory() as state,
        control_plane.run_control_plane(
            Path(state), build.build_programs(CONTROL_PLANE, print), controllers=False
        ) as kubeconfig,
        connect(str(kubeconfig)) as client,
    ):
        if crd_folder.is_dir():
            counts["CRDs served"] = crds.load_crds(client, crd_folder)
        client.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})
        _print_verdicts("objects as they are", client, documents, schemas, counts)
        _print_verdicts(
            f"objects with a mistake (seed {seed})", client, _iter_spoiled(documents, mutations, seed), schemas, counts
        )
    print("".join(f"{count:>7}  {title}\n" for title, count in counts.items()), end="")
    return int(any(title.endswith(disagreement) for title in counts for disagreement in _DISAGREEMENTS))


def _iter_documents(folder: Path, schemas: Schemas, counts: Counter[str]) -> Iterator[Document]:
    """Yield the objects below a folder whose kind has a schema; count what is left out."""
    for path in sorted(folder.rglob("*")):
        if path.suffix not in MANIFEST_ENDINGS or not path.is_file():
            continue
        try:
            documents, breaches = parse_manifests(path.read_bytes(), str(path.relative_to(folder)))
        except SpecError:
            counts["files that are not YAML"] += 1
            continue
        if any(breach.rule in {"template", "duplicate-key"} for breach in breaches):
            counts["files that are templates or have duplicate keys"] += 1
            continue
        for document in documents:
            rules = sorted({problem.rule for problem in lint(index_documents([document]), schemas)} & _LEFT_OUT)
            if rules:
                counts[f"objects left out: {rules[0]}"] += 1
            else:
                yield document


def _iter_spoiled(documents: list[Document], count: int, seed: int) -> Iterator[Document]:
    generator = random.Random(seed)  # noqa: S311 - a reproducible choice, no secret
    for _ in range(count):
        spoiled = spoil(generator.choice(documents), generator)
        if spoiled is not None:
            yield spoiled


def _print_verdicts(
    title: str, client: BlockingClient, documents: Iterable[Document], schemas: Schemas, counts: Counter[str]
) -> None:
    """Count the verdicts on the objects, and print each disagreement."""
    for document in documents:
        place = document.tree.find_place()
        try:
            verdict = judge(client, document, schemas)
            agreement, reason = verdict.agreement, verdict.refusal or ", ".join(verdict.rules)
        except UnknownKindError as error:
            is_known = document.api_version.rpartition("/")[2] in schemas.find_versions(document.group, document.kind)
            agreement = "not served, though a schema is shipped" if is_known else "not served, nor is a schema shipped"
            reason = str(error)
        except KubeError as error:
            agreement, reason = "no answer", str(error)
        counts[f"{title}: {agreement}"] += 1
        if agreement in _DISAGREEMENTS | {"no answer"}:
            print(f"{place.file}:{place.line}: {document.title}: {agreement}: {reason[:600]}")
