"""Certificates as they are issued, and questions about ones that cannot be read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from di_certs.authority import Authority, needs_renewal
from di_certs.inspection import fingerprint, has_expired, hosts_of, is_pair, issued_at

NOW = datetime(2030, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture(name="authority")
def make_authority() -> Authority:
    return Authority.create("ca", now=NOW, lifetime=10 * DAY)


def test_a_leaf_has_its_times_hosts_and_issuer(authority: Authority) -> None:
    hosts = ("di-webhook.di-system.svc", "10.0.0.7", "::1")
    pair = authority.issue("x", now=NOW, lifetime=DAY, hosts=hosts, server=True)
    assert issued_at(pair.certificate_pem) == NOW
    assert x509.load_pem_x509_certificate(pair.certificate_pem).not_valid_after_utc == NOW + DAY
    assert hosts_of(pair.certificate_pem) == frozenset(hosts)
    assert is_pair(pair.certificate_pem, pair.private_key_pem)
    assert authority.has_issued(pair.certificate_pem)


def test_an_authority_survives_being_stored(authority: Authority) -> None:
    again = Authority.load(authority.certificate_pem, authority.private_key_pem)
    leaf = again.issue("x", now=NOW, lifetime=DAY, client=True).certificate_pem
    assert authority.has_issued(leaf)


def test_an_authority_of_the_same_name_is_not_the_issuer(authority: Authority) -> None:
    other = Authority.create("ca", now=NOW, lifetime=10 * DAY)
    leaf = other.issue("x", now=NOW, lifetime=DAY, server=True)
    assert not authority.has_issued(leaf.certificate_pem)
    assert not is_pair(leaf.certificate_pem, authority.private_key_pem)
    with pytest.raises(ValueError, match="do not match"):
        Authority.load(authority.certificate_pem, other.private_key_pem)


def test_a_leaf_does_not_outlive_its_authority(authority: Authority) -> None:
    leaf = authority.issue("x", now=NOW, lifetime=100 * DAY, server=True)
    assert (
        x509.load_pem_x509_certificate(leaf.certificate_pem).not_valid_after_utc == NOW + 10 * DAY
    )


@pytest.mark.parametrize(
    ("passed", "due"), [(timedelta(0), False), (DAY * 0.6, False), (DAY * 0.67, True)]
)
def test_a_leaf_is_due_after_two_thirds_of_its_life(
    authority: Authority, passed: timedelta, due: bool
) -> None:
    leaf = authority.issue("x", now=NOW, lifetime=DAY, server=True).certificate_pem
    assert needs_renewal(leaf, now=NOW + passed) is due


def test_a_leaf_expires(authority: Authority) -> None:
    leaf = authority.issue("x", now=NOW, lifetime=DAY, server=True).certificate_pem
    assert not has_expired(leaf, now=NOW + DAY * 0.99)
    assert has_expired(leaf, now=NOW + DAY)


@pytest.mark.parametrize("junk", [b"", b"junk", b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_an_unreadable_certificate_is_due_and_no_error(junk: bytes, authority: Authority) -> None:
    assert needs_renewal(junk, now=NOW)
    assert has_expired(junk, now=NOW)
    assert not is_pair(junk, junk)
    assert not authority.has_issued(junk)
    assert hosts_of(junk) == frozenset()
    assert issued_at(junk) is None
    assert fingerprint(junk) == ""
