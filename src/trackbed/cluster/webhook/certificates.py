"""Creation and renewal of a CA and of the certificate that it signs: functions of the stored values and the time.

    authority   valid for 365 days; replaced when 90 days are left; the old authority is trusted until it expires
    certificate valid for 90 days; renewed when 30 days are left, or when its authority has been replaced

A new authority signs nothing for an hour. By then every API server has the new bundle, so none receives a certificate
of an authority that it does not trust yet. Keys are P-256; certificates follow RFC 5280 for servers.
"""

from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import NamedTuple

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFETIME, AUTHORITY_RENEWAL = timedelta(days=365), timedelta(days=90)
CERTIFICATE_LIFETIME, CERTIFICATE_RENEWAL = timedelta(days=90), timedelta(days=30)
SIGNING_DELAY = timedelta(hours=1)
"""Time between the publication of a new authority and its first signature."""
_CLOCK_SKEW = timedelta(minutes=5)
"""Certificates are valid from this long before their creation, since clocks differ."""
_HASH = hashes.SHA256()
_MAX_COMMON_NAME_CHARACTERS = 64
"""Largest number of characters of a common name (X.520, ub-common-name)."""


class CertificateSet(msgspec.Struct, frozen=True):
    """Authority and server certificate with their keys, as PEM; a replaced authority is kept until it expires."""

    authority: bytes
    authority_key: bytes
    certificate: bytes
    key: bytes
    old_authority: bytes = b""

    @property
    def bundle(self) -> bytes:
        """CA bundle: the authorities that clients must trust, as PEM."""
        return self.authority + self.old_authority


def renew_certificates(stored: CertificateSet | None, names: tuple[str, ...], now: datetime) -> CertificateSet:
    """Return the certificates to use: `stored` itself if no renewal is due.

    `names` are the DNS names and IP addresses of the server. Malformed certificates are replaced.
    """
    try:
        return _renew_set(stored, names, now) if stored else _create_set(names, now)
    except ValueError:
        return _create_set(names, now)


def read_expiry(certificate: bytes) -> datetime:
    """Return the end of the validity of a PEM certificate, in UTC. Raises ValueError if it is malformed."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


def _create_set(names: tuple[str, ...], now: datetime) -> CertificateSet:
    authority, authority_key = _create_authority(now)
    return CertificateSet(authority, authority_key, *_sign_certificate(authority, authority_key, names, now))


def _renew_set(stored: CertificateSet, names: tuple[str, ...], now: datetime) -> CertificateSet:
    authority = x509.load_pem_x509_certificate(stored.authority)
    if authority.not_valid_after_utc <= now:
        return _create_set(names, now)
    if authority.not_valid_after_utc - now < AUTHORITY_RENEWAL:
        new_authority, key = _create_authority(now)
        return msgspec.structs.replace(
            stored, authority=new_authority, authority_key=key, old_authority=stored.authority
        )
    if _is_renewal_due(stored, authority, names, now):
        certificate, key = _sign_certificate(stored.authority, stored.authority_key, names, now)
        return msgspec.structs.replace(stored, certificate=certificate, key=key)
    if stored.old_authority and read_expiry(stored.old_authority) <= now:
        return msgspec.structs.replace(stored, old_authority=b"")
    return stored


def _is_renewal_due(stored: CertificateSet, authority: x509.Certificate, names: tuple[str, ...], now: datetime) -> bool:
    """Return whether the certificate must be renewed. Raises ValueError if it or its key is malformed."""
    certificate = x509.load_pem_x509_certificate(stored.certificate)
    load_pem_private_key(stored.key, None)
    end = certificate.not_valid_after_utc
    if end <= now or _read_names(certificate) != set(names):
        return True
    may_sign = authority.not_valid_before_utc + _CLOCK_SKEW + SIGNING_DELAY <= now
    return may_sign and (not _is_signed_by(certificate, authority) or end - now < CERTIFICATE_RENEWAL)


def _is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _read_names(certificate: x509.Certificate) -> set[str]:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(name.value) for name in names}


class _CertificateWithKey(NamedTuple):
    """A certificate and its private key, as PEM."""

    certificate: bytes
    key: bytes


def _create_authority(now: datetime) -> _CertificateWithKey:
    """Return a self-signed authority and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _build_common_name(f"trackbed webhook authority {now:%Y-%m-%dT%H:%M:%SZ}")
    builder = _start_builder(name, key, now, now + AUTHORITY_LIFETIME).issuer_name(name)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    authority = builder.add_extension(_build_key_usage(is_authority=True), critical=True).sign(key, _HASH)
    return _CertificateWithKey(authority.public_bytes(Encoding.PEM), _to_pem(key))


def _sign_certificate(
    authority: bytes, authority_key: bytes, names: tuple[str, ...], now: datetime
) -> _CertificateWithKey:
    """Return a server certificate for `names` with a new key. Raises ValueError if the authority is malformed."""
    issuer, issuer_key = x509.load_pem_x509_certificate(authority), load_pem_private_key(authority_key, None)
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey):
        raise ValueError("the authority's key is not an elliptic-curve key")  # noqa: TRY004 - the value is malformed
    key = ec.generate_private_key(ec.SECP256R1())
    end = min(now + CERTIFICATE_LIFETIME, issuer.not_valid_after_utc)
    builder = _start_builder(_build_common_name(names[0][:_MAX_COMMON_NAME_CHARACTERS]), key, now, end).issuer_name(
        issuer.subject
    )
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_build_key_usage(is_authority=False), critical=True)
    for extension in (
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
        x509.SubjectAlternativeName([_to_general_name(name) for name in names]),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
    ):
        builder = builder.add_extension(extension, critical=False)
    return _CertificateWithKey(builder.sign(issuer_key, _HASH).public_bytes(Encoding.PEM), _to_pem(key))


def _start_builder(
    subject: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    """Return a builder with the fields that authority and server certificate share."""
    builder = x509.CertificateBuilder().subject_name(subject).public_key(key.public_key())
    builder = (
        builder.serial_number(x509.random_serial_number()).not_valid_before(now - _CLOCK_SKEW).not_valid_after(end)
    )
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def _build_key_usage(*, is_authority: bool) -> x509.KeyUsage:
    """Return the key usage: signing certificates and CRLs for an authority, TLS handshakes for a server."""
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _to_general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _build_common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _to_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
