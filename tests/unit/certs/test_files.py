"""Certificates in folders: what is kept, and where the authority's private key is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from di_certs.authority import Authority
from di_certs.files import Written, write_certificates

NOW = datetime(2030, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def write(served: Path, authority: Path | None) -> Written:
    return write_certificates(
        served, ["10.0.0.1"], now=NOW, lifetime=DAY, authority_folder=authority
    )


def test_the_authoritys_key_is_not_in_the_served_folder(tmp_path: Path) -> None:
    served, authority = tmp_path / "served", tmp_path / "authority"
    assert write(served, authority) == Written(authority=True, serving=True)
    assert {path.name for path in served.iterdir()} == {"ca.crt", "tls.crt", "tls.key"}
    certificate = (authority / "ca.crt").read_bytes()
    assert (served / "ca.crt").read_bytes() == certificate
    issuer = Authority.load(certificate, (authority / "ca.key").read_bytes())
    assert issuer.has_issued((served / "tls.crt").read_bytes())


def test_valid_certificates_are_kept(tmp_path: Path) -> None:
    served, authority = tmp_path / "served", tmp_path / "authority"
    write(served, authority)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    assert write(served, authority) == Written(authority=False, serving=False)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before


def test_an_exposed_authority_key_is_removed_and_replaced(tmp_path: Path) -> None:
    served, authority = tmp_path / "served", tmp_path / "authority"
    write(served, None)
    assert (served / "ca.key").exists()
    # Whoever has read it could issue certificates, so its authority goes too.
    assert write(served, authority) == Written(authority=True, serving=True)
    assert not (served / "ca.key").exists()
    assert (served / "ca.crt").read_bytes() == (authority / "ca.crt").read_bytes()
