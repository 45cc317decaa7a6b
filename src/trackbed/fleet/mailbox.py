"""The mailbox of a pod that proves: a ConfigMap, from which it gets sheets, and to which its answers go.

    began       a token of the worker, written by it once it can get sheets; kubelet may start another one later
    sheet       a line for `proof_worker`, in JSON, signed for the worker with that token
    round-N     the answers of a round of that sheet, in lines of JSON

All pods of a proof have one account, so each may write any mailbox. Therefore each value stands behind its signature by
the pod's key, which only this pod and the command have; a value without one is as if it were not there.

A pod that is a client of the API server needs no way in, no exec and no port, and reaches the server whatever network
its rails are on. Credentials are those of its service account (Kubernetes, "Accessing the Kubernetes API from a Pod").
"""

from __future__ import annotations

import hmac
import json
import os
import ssl
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from pathlib import Path

BEGAN, SHEET, ROUND_PREFIX = "began", "sheet", "round-"
NAME_VARIABLE, KEY_VARIABLE = "TRACKBED_MAILBOX", "TRACKBED_MAILBOX_KEY"
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_REQUEST_SECONDS, _TRIES, _PAUSE_SECONDS = 10.0, 4, 1.0
_WATCH_SECONDS = 240
"""Length of a watch; the server ends it, and the next one begins with what is there."""
_MOST_FAILURES = 60
"""Watches that fail one after the other, a second apart, before the pod gives up."""
_ERRORS = (OSError, HTTPException, ValueError)
"""URLError is an OSError; a ValueError is an answer that is no JSON."""


def sign(key: str, entry: str, text: str) -> str:
    """Return the text of an entry behind its signature: HMAC-SHA256 (RFC 2104), in hexadecimal, over name and text."""
    return f"{_compute_signature(key, entry, text)} {text}"


def verify(key: str, entry: str, value: str) -> str | None:
    """Return the text of a signed value, or None if the signature is not this key's for this entry."""
    signature, _, text = value.partition(" ")
    is_right = hmac.compare_digest(signature.encode(), _compute_signature(key, entry, text).encode())
    return text if is_right else None


def name_sheet(token: str) -> str:
    """Return the name by which the sheet for a worker is signed, so that it is a sheet for no other worker."""
    return f"{SHEET} {token}"


def _compute_signature(key: str, entry: str, text: str) -> str:
    return hmac.new(key.encode(), f"{entry}\n{text}".encode(), "sha256").hexdigest()


class Mailbox:
    """The mailbox of one pod."""

    def __init__(self, environment: Mapping[str, str], account: Path = ACCOUNT) -> None:
        """Read where the server is, and whose mailbox this is. Raises KeyError, OSError."""
        host, port = environment["KUBERNETES_SERVICE_HOST"], environment["KUBERNETES_SERVICE_PORT"]
        namespace = (account / "namespace").read_text().strip()
        server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        self._collection = f"{server}/api/v1/namespaces/{namespace}/configmaps"
        self._name, self._key, self.token = environment[NAME_VARIABLE], environment[KEY_VARIABLE], os.urandom(8).hex()
        self._account, self._context = account, ssl.create_default_context(cafile=str(account / "ca.crt"))

    def iter_sheets(self) -> Iterator[str]:
        """Yield each new sheet, once, until the mailbox is gone, or the server stays away for a minute."""
        failures, former = 0, {""}
        while failures < _MOST_FAILURES:
            try:
                for data in self._watch():
                    failures = 0
                    if data is None:
                        return
                    sheet = verify(self._key, name_sheet(self.token), data.get(SHEET, ""))
                    if sheet is not None and sheet not in former:
                        former.add(sheet)
                        yield sheet
            except _ERRORS as error:
                failures += 1
                sys.stderr.write(f"watching {self._name}: {error}\n")
                time.sleep(_PAUSE_SECONDS)

    def _watch(self) -> Iterator[Mapping[str, str] | None]:
        """Yield the data of the mailbox now, and after each change; None once it is gone."""
        query = f"watch=1&fieldSelector=metadata.name={self._name}&timeoutSeconds={_WATCH_SECONDS}"
        request = self._build_request("GET", f"{self._collection}?{query}")
        seconds = _WATCH_SECONDS + _REQUEST_SECONDS
        with urllib.request.urlopen(request, timeout=seconds, context=self._context) as lines:  # noqa: S310 - https
            for line in lines:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise ValueError(event["object"].get("message", "the watch failed"))
                yield None if event["type"] == "DELETED" else event["object"].get("data") or {}

    def write(self, data: Mapping[str, str]) -> None:
        """Set some entries; a failure is repeated, and then told in the pod's log."""
        signed = {entry: sign(self._key, entry, text) for entry, text in data.items()}
        body = json.dumps({"data": signed}).encode()
        for number in range(1, _TRIES + 1):
            try:
                request = self._build_request("PATCH", f"{self._collection}/{self._name}", body)
                urllib.request.urlopen(request, timeout=_REQUEST_SECONDS, context=self._context).close()  # noqa: S310 - https
            except _ERRORS as error:
                sys.stderr.write(f"writing {self._name}, try {number}: {error}\n")
                time.sleep(_PAUSE_SECONDS * (number < _TRIES))
            else:
                return

    def _build_request(self, method: str, url: str, body: bytes | None = None) -> urllib.request.Request:
        token = (self._account / "token").read_text().strip()  # kubelet renews it
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/merge-patch+json"}
        return urllib.request.Request(url, body, headers, method=method)  # noqa: S310 - https
