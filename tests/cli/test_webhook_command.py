"""`trackbed webhook` against a real API server: from nothing to pods with rails, and to its end."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner
from trackbed_lab.kubernetes import control_plane
from trackbed_lab.kubernetes.blocking import BlockingClient, connect
from trackbed_lab.ports import hold_ports
from trackbed_lab.processes import stop_processes

from tests.cli.test_controller_command import asked
from tests.cluster.webhook.live import make_namespace, refusal
from tests.cluster.webhook.test_cluster_watch import SPEC, own
from tests.cluster.webhook.test_server import review
from tests.cluster.webhook.values import pod
from tests.kinds import installed
from tests.waiting import wait_until
from trackbed.cli.main import cli
from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.webhook.certificates import renew_certificates

API = "admissionregistration.k8s.io/v1"
KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
SECONDS = 60.0


@pytest.fixture
def client(api_server: Path) -> Iterator[BlockingClient]:
    """A cluster with a Fabric, and without our webhook afterwards."""
    with connect(str(api_server)) as blocking_client:
        make_namespace(blocking_client, "trackbed-system")
        make_namespace(blocking_client, "default")
        installed(blocking_client)
        blocking_client.apply(own("Fabric", "train", SPEC))
        yield blocking_client
        for kind in KINDS:
            blocking_client.delete({"apiVersion": API, "kind": kind, "metadata": {"name": "trackbed"}})
        blocking_client.delete(own("Fabric", "train", {}))


@contextmanager
def served(kubeconfig: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """`trackbed webhook` once it serves; killed at the end if it lives."""
    with hold_ports(1) as (port,):
        where = f"127.0.0.1:{port}"
    argv = [sys.executable, "-m", "trackbed", "webhook", "--kubeconfig", str(kubeconfig)]
    process = subprocess.Popen(
        [*argv, "--listen", where, "--url", f"https://{where}", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == f"serving reviews at {where}\n"
        yield process
    finally:
        process.kill()
        process.communicate(timeout=SECONDS)


def until_given(client: BlockingClient) -> list[str]:
    """The rails of a pod that asks for all, as soon as the API server knows the webhook."""

    def list_rails() -> list[str]:
        made = client.create(pod(annotations={"trackbed.dev/rails": "all"}), dry_run=True).body
        return [name for name in made["spec"]["containers"][0]["resources"]["limits"] if "rail" in name]

    return wait_until(list_rails, "the API server calls the webhook")


def test_pods_get_rails_until_it_is_told_to_end(api_server: Path, client: BlockingClient) -> None:
    with hold_ports(1) as (port,):
        watched = f"127.0.0.1:{port}"
    with served(api_server, "--metrics", watched) as process:
        assert until_given(client) == ["rdma/rail0", "rdma/rail1"]
        assert asked(f"http://{watched}/readyz") == "200 ok\n"
        numbers = asked(f"http://{watched}/metrics")
        assert 'trackbed_review_duration_seconds_count{path="/pods",verdict="changed"} ' in numbers
        (ends,) = re.findall(r"^trackbed_certificate_expiry_timestamp_seconds (\S+)$", numbers, re.MULTILINE)
        assert 89 < (float(ends) - time.time()) / 86400 < 90
        kinds = re.findall(r'^trackbed_watch_heard_timestamp_seconds\{kind="(\w+)"\} [1-9]', numbers, re.MULTILINE)
        assert sorted(kinds) == ["fabrics", "namespaces", "nodes", "railnodes", "servicecidrs"]
        small = SPEC | {"addressing": {"scheme": "shared-subnet", "ipv4": "10.64.0.0/29"}}
        assert "has room for 0 nodes" in refusal(client, own("Fabric", "other", small))
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0
        assert process.stdout is not None
        assert "Traceback" not in process.stdout.read()
    assert "rails" not in refusal(client, pod(annotations={"trackbed.dev/rails": "all"}))


def test_a_certificate_of_others_is_shown_and_their_bundle_left_alone(
    api_server: Path, client: BlockingClient, tmp_path: Path
) -> None:
    held = renew_certificates(None, ("127.0.0.1",), datetime.now(UTC))
    (tmp_path / "tls.crt").write_bytes(held.certificate)
    (tmp_path / "tls.key").write_bytes(held.key)
    with served(api_server, "--certificates", str(tmp_path)):
        for kind in KINDS:
            configuration = client.get(API, kind, "trackbed")
            assert not any("caBundle" in webhook["clientConfig"] for webhook in configuration["webhooks"])
            for webhook in configuration["webhooks"]:
                webhook["clientConfig"]["caBundle"] = held.bundle
            body = {
                "apiVersion": API,
                "kind": kind,
                "metadata": {"name": "trackbed"},
                "webhooks": configuration["webhooks"],
            }
            client.apply(body, manager="cainjector", force=True)
        assert until_given(client) == ["rdma/rail0", "rdma/rail1"]


WRONG = {
    "no port": (["--listen", "localhost"], 2, "--listen localhost: write HOST:PORT"),
    "an IPv6 address without brackets": (["--listen", "::1:8443"], 2, "--listen ::1:8443: write HOST:PORT, for"),
    "a port that is none": (["--listen", "[::1]:65536"], 2, "--listen [::1]:65536: write HOST:PORT"),
    "no https": (["--url", "http://x"], 2, "--url http://x: the API server calls webhooks by https only"),
    "no kubeconfig": (["--kubeconfig", "/nonexistent"], 2, "no usable kubeconfig"),
}


@pytest.mark.parametrize(("words", "status", "message"), WRONG.values(), ids=WRONG)
def test_wrong_use_is_told(words: list[str], status: int, message: str) -> None:
    done = CliRunner().invoke(cli, ["webhook", *words])
    assert (done.exit_code, message in done.stderr) == (status, True), done.output


def test_a_cluster_that_does_not_answer_ends_it_with_3(api_server: Path, tmp_path: Path) -> None:
    with hold_ports(1) as (port,):
        text = api_server.read_text()
    there = tmp_path / "kubeconfig"
    at = text.index("https://127.0.0.1:") + len("https://127.0.0.1:")
    there.write_text(text[:at] + str(port) + text[text.index('"', at) :])
    done = CliRunner().invoke(cli, ["webhook", "--kubeconfig", str(there)])
    assert (done.exit_code, "no answer from" in done.stderr) == (3, True), done.output


def test_an_address_of_another_machine_is_told(api_server: Path, client: BlockingClient) -> None:
    assert client.read_version()
    done = CliRunner().invoke(cli, ["webhook", "--kubeconfig", str(api_server), "--listen", "192.0.2.1:8443"])
    assert (done.exit_code, "cannot serve at 192.0.2.1:8443: " in done.stderr) == (2, True), done.output


def test_a_folder_without_certificates_is_told(api_server: Path, client: BlockingClient, tmp_path: Path) -> None:
    assert client.read_version()
    words = ["webhook", "--kubeconfig", str(api_server), "--certificates", str(tmp_path)]
    done = CliRunner().invoke(cli, words)
    assert (done.exit_code, f"cannot read {tmp_path}/tls.crt" in done.stderr) == (2, True), done.output


def test_reviews_go_on_while_the_api_server_is_away(tmp_path: Path, control_plane_programs: Path) -> None:
    folder = tmp_path / "control-plane"
    with (
        control_plane.run_control_plane(folder, control_plane_programs, controllers=False) as kubeconfig,
        connect(str(kubeconfig)) as client,
    ):
        make_namespace(client, "trackbed-system")
        installed(client)
        client.apply(own("Fabric", "train", SPEC))
        with served(kubeconfig):
            [*_, webhook] = client.get(API, KINDS[0], "trackbed")["webhooks"]
            where = urlsplit(webhook["clientConfig"]["url"])
            trust = ssl.create_default_context(cadata=b64decode(webhook["clientConfig"]["caBundle"]).decode())
            stop_processes(
                [process for process in control_plane.load_processes(folder) if process.name == "kube-apiserver"]
            )
            assert where.port is not None
            connection = http.client.HTTPSConnection("127.0.0.1", where.port, timeout=20, context=trust)
            connection.request("POST", "/pods", review(pod(annotations={"trackbed.dev/rails": "all"})))
            answer = json.loads(connection.getresponse().read())["response"]
            connection.close()
    assert (answer["allowed"], "added 2 networks, 2 resources" in answer["warnings"][0]) == (True, True)


def test_a_request_of_the_webhook_ends_before_that_of_the_api_server_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients: list[DynamicClient] = []

    async def run(client: DynamicClient, *_: object) -> None:
        async with client:
            clients.append(client)

    monkeypatch.setattr("trackbed.cluster.webhook.run.serve", run)
    kubeconfig = tmp_path / "kubeconfig"
    cluster = {"name": "here", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "here", "context": {"cluster": "here", "user": "here"}}
    user = {"name": "here", "user": {}}
    kubeconfig.write_text(
        json.dumps({"clusters": [cluster], "contexts": [context], "users": [user], "current-context": "here"})
    )
    response = CliRunner().invoke(cli, ["webhook", "--kubeconfig", str(kubeconfig)], catch_exceptions=False)
    assert response.exit_code == 0, response.output
    (policy,) = (client.client.policy for client in clients)
    assert policy.timeout_seconds < 10  # the API server's default timeout of a webhook
    assert policy.attempts > 1  # a busy server must not end the webhook
