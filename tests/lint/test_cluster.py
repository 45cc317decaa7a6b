"""`trackbed lint --cluster` on a real API server that holds a sound and a broken object."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from trackbed_lab.kubernetes.blocking import BlockingClient

from tests.verdicts import judge, spoil
from trackbed.cluster.api.errors import UnknownKindError
from trackbed.cluster.api.response import Object
from trackbed.lint.catalogue import load_rules
from trackbed.lint.document import Document
from trackbed.lint.manifests import parse_manifests
from trackbed.lint.schemas.crds import index_crds

TRACKBED = Path(sys.executable).with_name("trackbed")


@pytest.fixture(scope="module", autouse=True)
def _service_account(cluster: BlockingClient) -> None:
    """Pods need one, and without controllers nobody makes it."""
    cluster.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})


def pool(name: str, subnet: str) -> Object:
    return {
        "apiVersion": "spiderpool.spidernet.io/v2beta1",
        "kind": "SpiderIPPool",
        "metadata": {"name": name},
        "spec": {"subnet": subnet, "ips": ["10.99.0.10-10.99.0.20"]},
    }


def test_a_broken_object_of_the_cluster_is_found_by_name_and_a_sound_one_is_not(
    cluster: BlockingClient, api_server: Path
) -> None:
    objects = [pool("sound", "10.99.0.0/24"), pool("host-bits", "10.98.0.5/24")]
    for manifest in objects:
        cluster.create(manifest)
    try:
        argv = [str(TRACKBED), "lint", "--cluster", "--kubeconfig", str(api_server), "-o", "json"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    finally:
        for manifest in objects:
            cluster.delete(manifest)
    assert done.returncode == 1, done.stderr
    problems = {(problem["object"], problem["rule"]) for problem in json.loads(done.stdout)}
    assert ("SpiderIPPool host-bits", "host-bits") in problems
    assert not [title for title, _ in problems if title == "SpiderIPPool sound"]


def test_files_are_checked_against_the_crds_of_a_cluster(
    cluster: BlockingClient, api_server: Path, tmp_path: Path
) -> None:
    del cluster  # the fixture loads the CRDs
    file = tmp_path / "pool.yaml"
    file.write_text(json.dumps(pool("sound", "10.99.0.0/24") | {"extra": 1}))
    argv = [str(TRACKBED), "lint", str(file), "--cluster", "--kubeconfig", str(api_server), "-o", "json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert [problem["rule"] for problem in json.loads(done.stdout)] == ["unknown-field"], done.stderr


SCHEMAS = index_crds()


def known_documents(text: str) -> list[Document]:
    """The objects of a text whose kind has a schema."""
    documents, _ = parse_manifests(text.encode(), "example.yaml")
    return [document for document in documents if SCHEMAS.find_versions(document.group, document.kind)]


EXAMPLES = [document for rule in load_rules().values() for document in known_documents(rule.good + "---\n" + rule.bad)]


def disagreements(client: BlockingClient, documents: list[Document]) -> list[str]:
    """What API server and schemas do not agree on."""
    lines = []
    for document in documents:
        try:
            verdict = judge(client, document, SCHEMAS)
        except UnknownKindError:
            continue  # a version that only another release of the CRD serves
        if "only" in verdict.agreement:
            lines.append(f"{document.title}: {verdict.agreement}: {verdict.refusal or verdict.rules}")
    return lines


def test_schemas_agree_with_the_api_server_on_the_examples_of_all_rules(cluster: BlockingClient) -> None:
    assert len(EXAMPLES) > 2 * len(load_rules())
    assert disagreements(cluster, EXAMPLES) == []


def test_schemas_agree_with_the_api_server_on_examples_with_one_mistake(cluster: BlockingClient) -> None:
    generator = random.Random(19)  # noqa: S311 - the same mistakes at every run, no secret
    spoiled = [spoil(generator.choice(EXAMPLES), generator) for _ in range(200)]
    assert disagreements(cluster, [document for document in spoiled if document is not None]) == []


def pod(limits: str = "{}", metadata: str = "name: a", fields: str = "nodeName: b") -> str:
    """A Pod in one line; `fields` are further fields of its spec."""
    container = f"{{name: a, image: b, resources: {{limits: {limits}}}}}"
    return f"{{apiVersion: v1, kind: Pod, metadata: {{{metadata}}}, spec: {{containers: [{container}], {fields}}}}}"


FORMATS = {
    "a quantity": (
        pod(limits="{cpu: VALUE}"),
        ["2", "0.5", "'500m'", "1e3", "' 2 '", "'1.'", "'+1'"],
        ["64GB", "10Kii", "two", "''", "[2]", "'1 2'"],
    ),
    "base64": (
        "{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {a: VALUE}}",
        ["YQ==", "YWI=", "YWJj", "''", '"YWJj\\nYWJj\\n"', "~"],
        ["te-t", "YQ", "a b=", "$YWJ", "'YWJj '"],
    ),
    "a time": (
        pod(metadata="name: a, creationTimestamp: VALUE"),
        ["'2026-01-02T15:04:05Z'", "'2026-01-02T15:04:05.5+01:00'", "~"],
        ["'2026-01-02'", "now", "12"],
    ),
    "a large number": (
        pod(fields="terminationGracePeriodSeconds: VALUE"),
        ["9223372036854775807"],
        ["9223372036854775808"],
    ),
}
"""What it is -> an object with VALUE, values that the API server reads, and others."""


@pytest.mark.parametrize("name", FORMATS)
def test_schemas_read_texts_and_numbers_as_the_api_server_does(cluster: BlockingClient, name: str) -> None:
    template, sound, wrong = FORMATS[name]
    for values, expected in ((sound, "both accept"), (wrong, "both refuse")):
        documents = known_documents("---\n".join(template.replace("VALUE", value) + "\n" for value in values))
        verdicts = [judge(cluster, document, SCHEMAS) for document in documents]
        assert [
            (value, verdict.agreement, verdict.refusal)
            for value, verdict in zip(values, verdicts, strict=True)
            if verdict.agreement != expected
        ] == []
