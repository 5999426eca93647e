"""HTTPS of di-server as a process, with certificates that change, or are none."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests
from cryptography.x509 import load_pem_x509_certificate, load_pem_x509_certificates

from di_certs.authority import Authority
from di_certs.inspection import join_certificates
from di_orchestrator.server.exchange import Answer, Request, Silence
from di_orchestrator.server.transport import Transport
from tests.integration.conftest import ApiServer
from tests.integration.di_server import ServerProcess, running_server
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("crd")
HOST = "127.0.0.1"
DAY = timedelta(days=1)


def new_authority(name: str) -> Authority:
    return Authority.create(name, now=datetime.now(UTC), lifetime=DAY)


def serve(authority: Authority, folder: Path) -> None:
    """Have a new certificate of the authority served; the pair is swapped as the kubelet does."""
    pair = authority.issue(HOST, now=datetime.now(UTC), lifetime=DAY, hosts=[HOST], server=True)
    for name, value in (("tls.key", pair.private_key_pem), ("tls.crt", pair.certificate_pem)):
        replace(folder / name, value)


def replace(path: Path, value: bytes) -> None:
    temporary = path.with_suffix(".new")
    temporary.write_bytes(value)
    temporary.replace(path)


@contextmanager
def asking(url: str, bundle: Path) -> Iterator[list[int]]:
    """Two clients that ask without a pause, one of them on new connections; none may fail."""
    answers: list[int] = []
    failures: list[Exception] = []
    ended = threading.Event()

    def ask(*, keep: bool) -> None:
        with requests.Session() as session:
            if not keep:
                session.headers["Connection"] = "close"
            while not ended.is_set():
                try:
                    answers.append(session.get(url, verify=str(bundle), timeout=60).status_code)
                except requests.RequestException as error:
                    failures.append(error)

    threads = [threading.Thread(target=ask, kwargs={"keep": keep}) for keep in (True, False)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        ended.set()
        for thread in threads:
            thread.join(90)
    assert failures == []
    assert set(answers) == {200}


def is_served(server: ServerProcess, folder: Path) -> bool:
    """Whether a new connection is shown the certificate that the folder has."""
    parts = urlsplit(server.encrypted_url)
    shown = ssl.get_server_certificate((parts.hostname or "", parts.port or 0), timeout=60)
    written = load_pem_x509_certificates((folder / "tls.crt").read_bytes())[0]
    return load_pem_x509_certificate(shown.encode()) == written


@pytest.mark.proves("security.md#traffic")
def test_a_new_certificate_and_a_new_authority_fail_no_request(
    api_server: ApiServer, tmp_path: Path
) -> None:
    old, new = new_authority("old"), new_authority("new")
    serve(old, tmp_path)
    bundle = tmp_path / "ca.crt"
    bundle.write_bytes(old.certificate_pem)
    with (
        running_server(tmp_path, api_server.kubeconfig, certificates=tmp_path) as server,
        asking(f"{server.encrypted_url}/healthz", bundle) as answers,
    ):

        def go_on() -> None:
            """Wait until both clients were answered by what is served now."""
            reached = len(answers) + 20
            wait_until(lambda: len(answers) >= reached, what="answers")

        both = join_certificates([new.certificate_pem, old.certificate_pem])
        go_on()
        serve(old, tmp_path)
        wait_until(lambda: is_served(server, tmp_path), what="the new certificate")
        go_on()
        # As the operator does: clients first, then the server, then what is not needed any more.
        replace(bundle, both)
        go_on()
        serve(new, tmp_path)
        wait_until(lambda: is_served(server, tmp_path), what="the new authority's")
        go_on()
        replace(bundle, new.certificate_pem)
        go_on()


def test_files_that_are_no_certificate_stop_neither_it_nor_plain_http(
    api_server: ApiServer, tmp_path: Path
) -> None:
    with running_server(
        tmp_path, api_server.kubeconfig, certificates=tmp_path, probe="healthz"
    ) as server:

        def ready() -> int:
            return requests.get(f"{server.url}/readyz", timeout=60).status_code

        assert ready() == 503
        for name in ("tls.crt", "tls.key"):
            replace(tmp_path / name, b"\0garbage")
        with pytest.raises(requests.ConnectionError):
            requests.get(f"{server.encrypted_url}/healthz", verify=False, timeout=60)
        assert ready() == 503
        authority = new_authority("late")
        bundle = tmp_path / "ca.crt"
        bundle.write_bytes(authority.certificate_pem)
        serve(authority, tmp_path)
        wait_until(lambda: ready() == 200, what="readiness")
        for name in ("tls.crt", "tls.key"):
            (tmp_path / name).unlink()
        # What was good is served on, here to what training programs import.
        asked = Request("GET", "/healthz")
        known = Transport(server.encrypted_url, ca_file=str(bundle)).send(asked)
        assert isinstance(known, Answer)
        assert known.status == 200
        unknown = Transport(server.encrypted_url).send(asked)
        assert isinstance(unknown, Silence)
        assert "CERTIFICATE_VERIFY_FAILED" in unknown.reason
        assert ready() == 200
