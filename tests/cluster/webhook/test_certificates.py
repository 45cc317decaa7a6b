"""Authority and certificate are renewed in time, and nobody is ever shown what he does not trust yet."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from cryptography import x509
from msgspec.structs import replace

from trackbed.cluster.webhook.certificates import (
    AUTHORITY_RENEWAL,
    CERTIFICATE_LIFETIME,
    CERTIFICATE_RENEWAL,
    SIGNING_DELAY,
    CertificateSet,
    read_expiry,
    renew_certificates,
)

NOW = datetime(2026, 11, 22, tzinfo=UTC)
NAMES = ("trackbed-webhook.trackbed-system.svc", "127.0.0.1")
FRESH = renew_certificates(None, NAMES, NOW)
DAY = timedelta(days=1)


def trusted(held: CertificateSet, bundle: bytes) -> bool:
    """Whether who has this bundle trusts the certificate that is shown."""
    shown = x509.load_pem_x509_certificate(held.certificate)
    for authority in x509.load_pem_x509_certificates(bundle):
        try:
            shown.verify_directly_issued_by(authority)
        except Exception:  # noqa: BLE001, S112 - whatever is wrong, this one has not signed it
            continue
        return True
    return False


def test_the_first_ones_are_made_at_once() -> None:
    assert trusted(FRESH, FRESH.bundle)
    assert read_expiry(FRESH.certificate) == NOW + CERTIFICATE_LIFETIME
    names = x509.load_pem_x509_certificate(FRESH.certificate).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert [str(name.value) for name in names.value] == list(NAMES)


def test_a_handshake_takes_them(tmp_path: Path) -> None:
    (tmp_path / "pem").write_bytes(FRESH.certificate + FRESH.key)
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cadata=FRESH.bundle.decode())
    now = renew_certificates(None, NAMES, datetime.now(UTC))
    (tmp_path / "pem").write_bytes(now.certificate + now.key)
    server.load_cert_chain(tmp_path / "pem")
    client = ssl.create_default_context(cadata=now.bundle.decode())
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours, theirs = (
        client.wrap_bio(there, back, server_hostname=NAMES[0]),
        server.wrap_bio(back, there, server_side=True),
    )
    for _ in range(3):
        for side in (ours, theirs):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert ours.version() == "TLSv1.3"


UNTOUCHED = {"at once": timedelta(0), "the day before": CERTIFICATE_LIFETIME - CERTIFICATE_RENEWAL - DAY}


@pytest.mark.parametrize("later", UNTOUCHED.values(), ids=UNTOUCHED)
def test_what_is_not_due_stays(later: timedelta) -> None:
    assert renew_certificates(FRESH, NAMES, NOW + later) is FRESH


def test_a_certificate_is_renewed_before_it_ends() -> None:
    now = NOW + CERTIFICATE_LIFETIME - CERTIFICATE_RENEWAL + DAY
    after = renew_certificates(FRESH, NAMES, now)
    assert (after.authority, after.certificate == FRESH.certificate) == (FRESH.authority, False)
    assert read_expiry(after.certificate) == now + CERTIFICATE_LIFETIME


def test_other_names_need_another_certificate() -> None:
    after = renew_certificates(FRESH, ("elsewhere.svc",), NOW + timedelta(minutes=1))
    assert (after.bundle, after.certificate == FRESH.certificate) == (FRESH.bundle, False)


def test_a_new_authority_is_told_for_an_hour_before_it_signs() -> None:
    due = read_expiry(FRESH.authority) - AUTHORITY_RENEWAL + DAY
    held = renew_certificates(replace(FRESH), NAMES, due - 2 * DAY)
    renewed = renew_certificates(held, NAMES, due)
    assert (renewed.certificate, renewed.old_authority) == (held.certificate, held.authority)
    assert renewed.bundle == renewed.authority + held.authority
    assert renew_certificates(renewed, NAMES, due + SIGNING_DELAY / 2) is renewed
    signed = renew_certificates(renewed, NAMES, due + SIGNING_DELAY + timedelta(minutes=1))
    assert trusted(signed, renewed.authority)
    assert signed.bundle == renewed.bundle


def test_through_ten_years_each_certificate_is_trusted_by_who_was_told_the_hour_before() -> None:
    held, states, now = FRESH, [FRESH], NOW
    for _ in range(10 * 365):
        now += DAY
        for moment in (now, now + SIGNING_DELAY + timedelta(minutes=6)):
            held = renew_certificates(held, NAMES, moment)
            assert read_expiry(held.certificate) > moment + CERTIFICATE_RENEWAL - 2 * DAY
            states.append(held)
    assert all(trusted(after, before.bundle) for before, after in pairwise(states))
    assert len({state.authority for state in states}) > 10
    assert all(state.bundle.count(b"BEGIN CERTIFICATE") <= 2 for state in states)


BROKEN = {
    "no authority": {"authority": b""},
    "no key": {"key": b"x"},
    "another's key": {"authority_key": renew_certificates(None, NAMES, NOW).key, "certificate": b"x"},
    "an old authority that is none": {"old_authority": b"x"},
}


@pytest.mark.parametrize("fields", BROKEN.values(), ids=BROKEN)
def test_what_cannot_be_read_is_made_anew(fields: dict[str, bytes]) -> None:
    after = renew_certificates(replace(FRESH, **fields), NAMES, NOW + DAY)
    assert trusted(after, after.bundle)
    assert after.authority != FRESH.authority
