"""A certificate authority and the leaf certificates it issues, all ECDSA P-256."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Clients whose clock is behind must not see a new certificate as "not yet valid".
BACKDATE = timedelta(minutes=5)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A PEM certificate (or public key) with its PEM private key (PKCS #8, unencrypted)."""

    certificate_pem: bytes
    private_key_pem: bytes


class Authority:
    """A self-signed authority that issues leaf certificates."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key

    @classmethod
    def create(cls, common_name: str, *, now: datetime, lifetime: timedelta) -> Self:
        """Create an authority that is valid from five minutes before `now` until `now +
        lifetime`.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(common_name)
        builder = _builder(name, name, key.public_key(), now=now, lifetime=lifetime)
        certificate = (
            builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(cert_sign=True), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    @classmethod
    def load(cls, certificate_pem: bytes, private_key_pem: bytes) -> Self:
        """Load an authority from PEM.

        Raises:
            ValueError: the PEM is unreadable, the key is not ECDSA, or the two do not match.
        """
        certificate = x509.load_pem_x509_certificate(certificate_pem)
        key = serialization.load_pem_private_key(private_key_pem, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("the authority's private key is not an ECDSA key")
        if certificate.public_key() != key.public_key():
            raise ValueError("the authority's certificate and private key do not match")
        return cls(certificate, key)

    @property
    def certificate_pem(self) -> bytes:
        """Return the authority's own certificate."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def private_key_pem(self) -> bytes:
        """Return its private key, without a password."""
        return _private_pem(self._key)

    def has_issued(self, certificate_pem: bytes) -> bool:
        """Return whether the first certificate of the PEM has a valid signature of this
        authority.
        """
        return is_issued_by(certificate_pem, self.certificate_pem)

    def issue(
        self,
        common_name: str,
        *,
        now: datetime,
        lifetime: timedelta,
        organizations: Iterable[str] = (),
        hosts: Iterable[str] = (),
        server: bool = False,
        client: bool = False,
    ) -> KeyPair:
        """Issue a leaf certificate.

        Args:
            common_name: subject CN; Kubernetes reads it as the user name of a client.
            now: start of validity (backdated by five minutes).
            lifetime: how long it is valid; never longer than the authority itself.
            organizations: subject O; Kubernetes reads them as the groups of a client.
            hosts: DNS names and IP addresses of a server.
            server: allow use as a TLS server.
            client: allow use as a TLS client.

        Raises:
            ValueError: neither `server` nor `client` is asked for.
        """
        usages = [ExtendedKeyUsageOID.SERVER_AUTH] * server
        usages += [ExtendedKeyUsageOID.CLIENT_AUTH] * client
        if not usages:
            raise ValueError("a certificate needs a use: server, client or both")
        lifetime = min(lifetime, self._certificate.not_valid_after_utc - now)
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(
                _name(common_name, organizations),
                self._certificate.subject,
                key.public_key(),
                now=now,
                lifetime=lifetime,
            )
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(cert_sign=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        names = [_general_name(host) for host in hosts]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return KeyPair(
            certificate_pem=certificate.public_bytes(serialization.Encoding.PEM),
            private_key_pem=_private_pem(key),
        )


def generate_key_pair() -> KeyPair:
    """Return a plain key pair; `certificate_pem` holds the public key (service-account tokens)."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return KeyPair(certificate_pem=public, private_key_pem=_private_pem(key))


def renewal_time(certificate_pem: bytes, *, fraction: float = 2 / 3) -> datetime:
    """Return the moment (UTC) at which `fraction` of the first certificate's lifetime has passed.

    Raises:
        ValueError: the PEM holds no certificate.
    """
    certificate = x509.load_pem_x509_certificate(certificate_pem)
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return start + (end - start) * fraction


def needs_renewal(certificate_pem: bytes, *, now: datetime, fraction: float = 2 / 3) -> bool:
    """Return whether `fraction` of the certificate's lifetime has passed, or it is unreadable."""
    try:
        return now >= renewal_time(certificate_pem, fraction=fraction)
    except ValueError:
        return True


def is_issued_by(certificate_pem: bytes, authority_pem: bytes) -> bool:
    """Return whether the first certificate of the PEM has a valid signature of the authority."""
    try:
        certificate = x509.load_pem_x509_certificate(certificate_pem)
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority_pem))
    except Exception:  # the library raises a different type for each way of not matching
        return False
    return True


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    *,
    now: datetime,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(now + lifetime)
    )


def _key_usage(*, cert_sign: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=cert_sign,
        crl_sign=cert_sign,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common_name: str, organizations: Iterable[str] = ()) -> x509.Name:
    return x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
