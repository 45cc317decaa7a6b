"""An authority and the certificate it signs, made and renewed here: functions of what is held and the time.

    authority   a year; renewed when 90 days are left, the old one stays trusted until it expires
    certificate 90 days; renewed when 30 are left, or when its authority is not the newest one any more

A new authority signs nothing for an hour: by then every API server has the new bundle, so that no certificate is ever
shown that somebody does not trust yet. Keys are P-256; certificates are as RFC 5280 wants them of servers.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from ipaddress import ip_address

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

AUTHORITY_LIVES, AUTHORITY_LEFT = timedelta(days=365), timedelta(days=90)
LIVES, LEFT = timedelta(days=90), timedelta(days=30)
TOLD = timedelta(hours=1)
"""How long a new authority is only told, before it signs."""
_SKEW = timedelta(minutes=5)
"""Certificates begin earlier by this: clocks differ."""


class Held(msgspec.Struct, frozen=True):
    """Keys and certificates as PEM; an authority that was replaced is kept as long as something of it may be shown."""

    authority: bytes
    authority_key: bytes
    certificate: bytes
    key: bytes
    old_authority: bytes = b""

    @property
    def bundle(self) -> bytes:
        """The authorities that whoever calls us must trust."""
        return self.authority + self.old_authority


def renewed(held: Held | None, names: tuple[str, ...], now: datetime) -> Held:
    """What must be held from now on; the same value where nothing is due. `names` are DNS names and IP addresses.

    What cannot be read is made anew.
    """
    try:
        return _renewed(held, names, now) if held else _fresh(names, now)
    except ValueError:
        return _fresh(names, now)


def expiry(certificate: bytes) -> datetime:
    """When a certificate (PEM) ends, UTC. Raises ValueError where it is none."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


def _fresh(names: tuple[str, ...], now: datetime) -> Held:
    authority, authority_key = _authority(now)
    return Held(authority, authority_key, *_signed(authority, authority_key, names, now))


def _renewed(held: Held, names: tuple[str, ...], now: datetime) -> Held:
    authority = x509.load_pem_x509_certificate(held.authority)
    if authority.not_valid_after_utc <= now:
        return _fresh(names, now)
    if authority.not_valid_after_utc - now < AUTHORITY_LEFT:
        fresh, key = _authority(now)
        return msgspec.structs.replace(held, authority=fresh, authority_key=key, old_authority=held.authority)
    if _is_due(held, authority, names, now):
        certificate, key = _signed(held.authority, held.authority_key, names, now)
        return msgspec.structs.replace(held, certificate=certificate, key=key)
    if held.old_authority and expiry(held.old_authority) <= now:
        return msgspec.structs.replace(held, old_authority=b"")
    return held


def _is_due(held: Held, authority: x509.Certificate, names: tuple[str, ...], now: datetime) -> bool:
    certificate = x509.load_pem_x509_certificate(held.certificate)
    load_pem_private_key(held.key, None)
    ends = certificate.not_valid_after_utc
    if ends <= now or _names_of(certificate) != set(names):
        return True
    told = authority.not_valid_before_utc + _SKEW + TOLD <= now
    return told and (not _is_of(certificate, authority) or ends - now < LEFT)


def _is_of(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _names_of(certificate: x509.Certificate) -> set[str]:
    held = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(one.value) for one in held}


def _authority(now: datetime) -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"trackbed webhook authority {now:%Y-%m-%dT%H:%M:%SZ}")
    builder = _builder(name, key, now, now + AUTHORITY_LIVES).issuer_name(name)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return builder.add_extension(_usage(signs=True), critical=True).sign(key, _HASH).public_bytes(Encoding.PEM), _pem(
        key
    )


def _signed(authority: bytes, authority_key: bytes, names: tuple[str, ...], now: datetime) -> tuple[bytes, bytes]:
    above, signing = x509.load_pem_x509_certificate(authority), load_pem_private_key(authority_key, None)
    if not isinstance(signing, ec.EllipticCurvePrivateKey):
        raise ValueError("the authority's key is of another kind than we make")  # noqa: TRY004 - what is read, no type
    key = ec.generate_private_key(ec.SECP256R1())
    until = min(now + LIVES, above.not_valid_after_utc)
    builder = _builder(_name(names[0][:_COMMON_NAME]), key, now, until).issuer_name(above.subject)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    builder = builder.add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), critical=False)
    above_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key())
    builder = builder.add_extension(above_id, critical=False)
    return builder.sign(signing, _HASH).public_bytes(Encoding.PEM), _pem(key)


def _builder(
    name: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, until: datetime
) -> x509.CertificateBuilder:
    """What authority and certificate share."""
    builder = x509.CertificateBuilder().subject_name(name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - _SKEW).not_valid_after(until)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def _usage(*, signs: bool) -> x509.KeyUsage:
    """An authority signs certificates, a server its handshakes."""
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


_HASH = hashes.SHA256()
_COMMON_NAME = 64
"""Characters of a common name (X.520, ub-common-name)."""
