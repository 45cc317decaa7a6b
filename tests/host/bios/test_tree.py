"""Reading and staging on a small Redfish tree over HTTPS: what the emulator lacks (a registry, values that wait)."""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from trackbed.host.bios.compare import compare
from trackbed.host.bios.connection import Bmc, BmcError
from trackbed.host.bios.files import Credentials, load_profile
from trackbed.host.bios.redfish import read_bios_state, stage_attributes

pytestmark = pytest.mark.needs("processes")

WHO = Credentials("admin", "secret")
NAME, ROOT = "SRIOVSupport_00F1", "/redfish/v1"
ENTRY = {"AttributeName": NAME, "DisplayName": "SR-IOV Support", "ReadOnly": False,
         "Value": [{"ValueName": "Disabled"}, {"ValueName": "Enabled"}]}  # fmt: skip
BIOS, PENDING = f"{ROOT}/Systems/1/Bios", f"{ROOT}/Systems/1/Bios/SD"


def link(path: str) -> dict[str, str]:
    return {"@odata.id": path}


def tree() -> dict[str, Any]:
    return {
        ROOT: {"Id": "r", "RedfishVersion": "1.15.0", "Systems": link(f"{ROOT}/Systems")},
        f"{ROOT}/Systems": {"Name": "s", "Members": [link(f"{ROOT}/Systems/1")]},
        f"{ROOT}/Systems/1": {"Id": "1", "Manufacturer": "Supermicro", "Bios": link(BIOS)},
        BIOS: {"Id": "b", "AttributeRegistry": "Reg.1", "Attributes": {NAME: "Disabled"},
               "@Redfish.Settings": {"SettingsObject": link(PENDING)}},
        PENDING: {"Id": "p", "Attributes": {NAME: "Disabled"}},
        f"{ROOT}/Registries": {"Members": [link(f"{ROOT}/Registries/Reg.1")]},
        f"{ROOT}/Registries/Reg.1": {"Location": [{"Language": "en", "Uri": f"{ROOT}/reg.json"}]},
        f"{ROOT}/reg.json": {"RegistryEntries": {"Attributes": [ENTRY]}},
    }  # fmt: skip


class Server(BaseHTTPRequestHandler):
    """Serves the tree; a PATCH changes what waits for the next boot."""

    tree: ClassVar[dict[str, Any]] = {}

    def do_GET(self) -> None:
        """One resource."""
        resource = self.tree.get(self.path.rstrip("/"))
        self._answer(404 if resource is None else 200, resource or {})

    def do_PATCH(self) -> None:
        """Settings for the next boot."""
        changes = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.tree[self.path]["Attributes"].update(changes["Attributes"])
        self.tree[self.path]["asked"] = changes.get("@Redfish.SettingsApplyTime")
        self._answer(200, {})

    def _answer(self, status: int, body: object) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def bmc(tmp_path: Path) -> Iterator[Bmc]:
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-keyout", "key.pem", "-out", "ca.pem", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
        cwd=tmp_path, check=True, capture_output=True, timeout=30,
    )  # fmt: skip
    Server.tree.clear()
    Server.tree.update(tree())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "ca.pem", tmp_path / "key.pem")
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Bmc(f"localhost:{server.server_address[1]}", tmp_path / "ca.pem", 5)
        server.shutdown()


def test_what_is_staged_waits_and_is_not_staged_again(bmc: Bmc) -> None:
    wanted, known = {"sriov": "enabled"}, load_profile("supermicro")
    (first,) = compare(known, wanted, read_bios_state(bmc, WHO))
    assert (first.state, first.attribute, first.value) == ("differs", NAME, "Enabled")
    stage_attributes(bmc, WHO, {NAME: first.value})
    (again,) = compare(known, wanted, read_bios_state(bmc, WHO))
    assert (again.state, again.have) == ("staged", "Disabled")


def told(bmc: Bmc, manufacturer: str, *times: str) -> tuple[str, object]:
    """(what `stage` says is to be done yet, the apply time that the BMC was asked for)."""
    Server.tree[f"{ROOT}/Systems/1"]["Manufacturer"] = manufacturer
    Server.tree[BIOS]["@Redfish.Settings"] |= {"SupportedApplyTimes": list(times)} if times else {}
    note = stage_attributes(bmc, WHO, {NAME: "Enabled"})
    return note, Server.tree[PENDING].get("asked")


def test_a_bmc_that_takes_an_apply_time_is_given_the_next_reset(bmc: Bmc) -> None:
    note, requested = told(bmc, "Dell Inc.", "OnReset", "InMaintenanceWindowOnReset")
    assert (note, requested) == ("", {"@odata.type": "#Settings.v1_0_0.PreferredApplyTime", "ApplyTime": "OnReset"})


def test_an_idrac_that_takes_none_needs_a_job(bmc: Bmc) -> None:
    note, requested = told(bmc, "Dell Inc.")
    assert requested is None
    assert "racadm jobqueue create BIOS.Setup.1-1" in note


def test_others_need_no_job(bmc: Bmc) -> None:
    assert told(bmc, "Supermicro") == ("", None)


def test_a_server_without_bios_attributes_is_told(bmc: Bmc) -> None:
    del Server.tree[f"{ROOT}/Systems/1"]["Bios"]
    with pytest.raises(BmcError, match="offers no BIOS attributes"):
        read_bios_state(bmc, WHO)


def test_an_answer_that_is_no_redfish_is_told(bmc: Bmc) -> None:
    Server.tree[BIOS]["Attributes"] = {NAME: [1]}
    with pytest.raises(BmcError, match="no Redfish"):
        read_bios_state(bmc, WHO)
