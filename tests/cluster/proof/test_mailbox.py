"""A pod's side of its mailbox: only what is signed by its key, for it, is a sheet; against a real API server."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trackbed_lab.kubernetes.blocking import BlockingClient, connect

from tests.prove.hosts import build_plan
from trackbed.cluster.jobs.requirements import build_requirements
from trackbed.cluster.proof.objects import ProofSite, build_mailbox, build_pod, build_shared
from trackbed.cluster.stacks import load_stack
from trackbed.fleet.mailbox import SHEET, Mailbox, name_sheet, sign, verify

SPACE, SECONDS = "mailboxes", 60


def build_site() -> ProofSite:
    requirements = build_requirements(load_stack("network-operator-macvlan"), build_plan(2))
    return ProofSite("proof-box", SPACE, "x", requirements, 600, b"secret", build_plan(2).common)


@pytest.fixture
def client(api_server: Path) -> Iterator[BlockingClient]:
    with connect(str(api_server)) as opened:
        opened.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
        yield opened


@given(st.text(), st.text(), st.text(), st.text())
def test_a_text_is_read_by_its_own_key_and_name_alone(key: str, entry: str, text: str, other: str) -> None:
    signed = sign(key, entry, text)
    assert verify(key, entry, signed) == text
    assert verify(f"{key}x", entry, signed) is None
    assert verify(key, f"{entry}x", signed) is None
    assert verify(key, entry, f"{signed}x") is None
    assert verify(key, entry, other) is None


def write_account(folder: Path, client: BlockingClient, site: ProofSite, kubeconfig: Path) -> None:
    """Write the files that kubelet mounts for the service account of a proof."""
    cluster = json.loads(kubeconfig.read_text())["clusters"][0]["cluster"]
    path = f"/api/v1/namespaces/{SPACE}/serviceaccounts/{site.name}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    (folder / "token").write_text(client.run(client.dynamic.client.create(path, request))["status"]["token"])
    (folder / "ca.crt").write_bytes(b64decode(cluster["certificate-authority-data"]))
    (folder / "namespace").write_text(SPACE)


def test_a_pod_takes_sheets_that_are_signed_for_it_once_each(
    client: BlockingClient, api_server: Path, tmp_path: Path
) -> None:
    site = build_site()
    for body in (*build_shared(site, 2), build_mailbox(site, 0)):
        client.create(body)
    write_account(tmp_path, client, site, api_server)
    server = json.loads(api_server.read_text())["clusters"][0]["cluster"]["server"]
    host, _, port = server.removeprefix("https://").rpartition(":")
    [container] = build_pod(site, 0, "gpu001")["spec"]["containers"]
    environment = {entry["name"]: entry["value"] for entry in container["env"]}
    environment |= {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    mailbox = Mailbox(environment, tmp_path)

    def write(key: str, token: str, text: str) -> None:
        path = f"/api/v1/namespaces/{SPACE}/configmaps/{site.name_pod(0)}"
        data = {SHEET: sign(key, name_sheet(token), text)}
        client.run(client.dynamic.client.merge(path, {"data": data}))

    sheets: SimpleQueue[str | None] = SimpleQueue()

    def read() -> None:
        for sheet in mailbox.iter_sheets():
            sheets.put(sheet)
        sheets.put(None)

    key = site.derive_key(0)
    write(key, mailbox.token, "first")
    reader = Thread(target=read, daemon=True)
    reader.start()
    assert sheets.get(timeout=SECONDS) == "first"
    write(site.derive_key(1), mailbox.token, "of another pod")
    write(key, "former", "of a worker before")
    write(key, mailbox.token, "second")
    write(key, mailbox.token, "first")
    write(key, mailbox.token, "third")
    assert [sheets.get(timeout=SECONDS), sheets.get(timeout=SECONDS)] == ["second", "third"]
    client.delete(build_mailbox(site, 0))
    assert sheets.get(timeout=SECONDS) is None
    reader.join(SECONDS)
    for body in build_shared(site, 2):
        client.delete(body)
