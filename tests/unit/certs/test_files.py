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


def test_the_key_of_the_authority_stays_out_of_what_is_served(tmp_path: Path) -> None:
    served, authority = tmp_path / "served", tmp_path / "authority"
    assert write(served, authority) == Written(authority=True, serving=True)
    assert {path.name for path in served.iterdir()} == {"ca.crt", "tls.crt", "tls.key"}
    certificate = (authority / "ca.crt").read_bytes()
    assert (served / "ca.crt").read_bytes() == certificate
    issuer = Authority.load(certificate, (authority / "ca.key").read_bytes())
    assert issuer.has_issued((served / "tls.crt").read_bytes())


def test_what_is_good_is_kept_in_two_folders_too(tmp_path: Path) -> None:
    served, authority = tmp_path / "served", tmp_path / "authority"
    write(served, authority)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    assert write(served, authority) == Written(authority=False, serving=False)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == before


def test_a_key_that_an_earlier_run_left_beside_the_others_goes(tmp_path: Path) -> None:
    served, authority = tmp_path / "served", tmp_path / "authority"
    write(served, None)
    assert (served / "ca.key").exists()
    # Whoever has read it could issue certificates, so its authority goes too.
    assert write(served, authority) == Written(authority=True, serving=True)
    assert not (served / "ca.key").exists()
    assert (served / "ca.crt").read_bytes() == (authority / "ca.crt").read_bytes()
