"""Certificates of clients, signed by an authority of the webhook's kind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from trackbed.cluster.webhook.certificates import CertificateSet


def sign_client(authority: CertificateSet) -> bytes:
    """A client's certificate and key, as PEM, signed by the authority."""
    now = datetime.now(UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    signer = x509.load_pem_x509_certificate(authority.authority)
    builder = x509.CertificateBuilder(signer.subject, x509.Name([]), key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(hours=1))
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    san = x509.SubjectAlternativeName([x509.DNSName("kube-apiserver")])
    signing_key = load_pem_private_key(authority.authority_key, None)
    assert isinstance(signing_key, ec.EllipticCurvePrivateKey)
    signed = (
        builder.add_extension(usage, critical=False)
        .add_extension(san, critical=True)
        .sign(signing_key, hashes.SHA256())
    )
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return signed.public_bytes(Encoding.PEM) + secret
