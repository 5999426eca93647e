"""Properties of existing certificates; none of these functions raises."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from di_certs.authority import BACKDATE


def split_certificates(bundle_pem: bytes) -> list[bytes]:
    """Return the certificates of a PEM bundle, each re-encoded, in order, without repetition.

    A bundle with anything that is not a certificate counts as empty.
    """
    try:
        certificates = x509.load_pem_x509_certificates(bundle_pem)
    except ValueError:
        return []
    encoded = (item.public_bytes(serialization.Encoding.PEM) for item in certificates)
    return list(dict.fromkeys(encoded))


def join_certificates(certificates: Iterable[bytes]) -> bytes:
    """Return a PEM bundle of the certificates, each once."""
    return b"".join(dict.fromkeys(certificates))


def is_pair(certificate_pem: bytes, private_key_pem: bytes) -> bool:
    """Return whether the first certificate has the public half of the private key."""
    try:
        certificate = x509.load_pem_x509_certificate(certificate_pem)
        key = serialization.load_pem_private_key(private_key_pem, password=None)
    except (ValueError, TypeError):  # TypeError: the key is encrypted
        return False
    return certificate.public_key() == key.public_key()


def hosts_of(certificate_pem: bytes) -> frozenset[str]:
    """Return the DNS names and IP addresses that the first certificate is valid for."""
    try:
        certificate = x509.load_pem_x509_certificate(certificate_pem)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return frozenset()
    addresses = (str(address) for address in names.get_values_for_type(x509.IPAddress))
    return frozenset([*names.get_values_for_type(x509.DNSName), *addresses])


def issued_at(certificate_pem: bytes) -> datetime | None:
    """Return the moment (UTC) at which `Authority` issued the first certificate, None if
    unreadable.
    """
    try:
        return x509.load_pem_x509_certificate(certificate_pem).not_valid_before_utc + BACKDATE
    except ValueError:
        return None


def has_expired(certificate_pem: bytes, *, now: datetime) -> bool:
    """Return whether the first certificate has expired or is unreadable."""
    try:
        return now >= x509.load_pem_x509_certificate(certificate_pem).not_valid_after_utc
    except ValueError:
        return True


def fingerprint(certificate_pem: bytes) -> str:
    """Return a short hexadecimal name of the first certificate for logs, "" if unreadable."""
    try:
        return (
            x509.load_pem_x509_certificate(certificate_pem).fingerprint(hashes.SHA256()).hex()[:16]
        )
    except ValueError:
        return ""
