"""What is released goes into a registry under the names that the chart has, and is signed."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from di_cluster.builds.images import Image
from di_cluster.cluster import Cluster
from di_cluster.errors import CommandFailed
from tests.chart.chart import CHART, Chart
from tests.fakes.registry import Registry, registry
from tools.release.artifacts import PROVENANCE, RELEASE, SBOM, Key
from tools.release.bundle import pack_chart
from tools.release.push import main, push
from tools.release.version import present

pytestmark = pytest.mark.extended

VERSION = present(CHART.parents[1])
SERVICES = ("webhook", "operator", "server")
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


class Builder:
    """Pushes images that are nothing but a name, and notes it."""

    def __init__(self, there: Registry) -> None:
        self._there = there
        self._cluster = Cluster()
        self.pushed: dict[str, tuple[Image, bool]] = {}

    def binary(self, program: str) -> Path:
        return self._cluster.binary(program)

    def push_image(self, image: Image, destination: str, *, plain: bool) -> None:
        self.pushed[destination] = image, plain
        empty = {"mediaType": "application/vnd.oci.empty.v1+json", "size": 2}
        config = {**empty, "digest": f"sha256:{hashlib.sha256(b'{}').hexdigest()}"}
        body = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": config,
                "layers": [],
                "annotations": {"name": destination},
            }
        ).encode()
        name, _, tag = destination.removeprefix(f"{self._there.address}/").rpartition(":")
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        for key in (tag, digest):
            self._there.manifests[name, key] = MANIFEST, body


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """A release in a registry, and the folder of a user who verifies it."""

    there: Registry
    builder: Builder
    key: Key
    said: list[str]
    directory: Path
    home: Path

    @property
    def name(self) -> str:
        return f"{self.there.address}/team"

    def oras(self, *words: str) -> Any:
        argv: list[str | Path] = [
            self.builder.binary("oras"),
            *words,
            "--plain-http",
            "--format",
            "json",
        ]
        return json.loads(subprocess.run(argv, check=True, capture_output=True, timeout=60).stdout)

    def referrers(self, subject: str, kind: str) -> list[str]:
        found = self.oras("discover", subject, "--artifact-type", kind)
        return [each["reference"] for each in found["referrers"]]

    def content(self, reference: str) -> Mapping[str, bytes]:
        """The files of an artifact, by name."""
        manifest = self.oras("manifest", "fetch", reference)["content"]
        name = "org.opencontainers.image.title"
        return {
            layer["annotations"][name]: self.there.blobs[layer["digest"]]
            for layer in manifest["layers"]
        }

    def verified(self, reference: str, authority: Path) -> bool:
        """Whether notation takes a signature of it for one of that authority."""
        settings = self.home / authority.stem / "notation"
        store = settings / "truststore/x509/ca/release"
        store.mkdir(parents=True, exist_ok=True)
        (store / "authority.pem").write_bytes(authority.read_bytes())
        policy = {
            "name": "release",
            "registryScopes": ["*"],
            "signatureVerification": {"level": "strict"},
            "trustStores": ["ca:release"],
            "trustedIdentities": ["*"],
        }
        document = {"version": "1.0", "trustPolicies": [policy]}
        (settings / "trustpolicy.json").write_text(json.dumps(document))
        (settings / "trustpolicy.json").chmod(0o600)
        notation = self.builder.binary("notation")
        argv: list[str | Path] = [notation, "verify", "--insecure-registry", reference]
        environment = {**os.environ, "XDG_CONFIG_HOME": str(settings.parent)}
        done = subprocess.run(argv, env=environment, capture_output=True, timeout=60, check=False)
        return done.returncode == 0


@pytest.fixture(scope="module")
def pushed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pushed]:
    directory, home = tmp_path_factory.mktemp("release"), tmp_path_factory.mktemp("home")
    _release(directory)
    key = _key(home, "release")
    with registry() as there:
        builder = Builder(there)
        images = {each: Image(reference=f"localhost/di-{each}", image_id=each) for each in SERVICES}
        said = push(
            builder, images, directory, registry=f"{there.address}/team", version=VERSION, key=key
        )
        yield Pushed(
            there=there, builder=builder, key=key, said=said, directory=directory, home=home
        )


def test_a_pushed_chart_can_be_pulled_and_names_the_pushed_images(
    pushed: Pushed, chart: Chart, tmp_path: Path
) -> None:
    *images, where = pushed.said
    pulled = ["pull", *where.split(), "--plain-http", "--untar", "--untardir", str(tmp_path)]
    subprocess.run([chart.helm, *pulled], check=True, capture_output=True, timeout=60)
    assert images == list(pushed.builder.pushed)
    assert all(plain for _, plain in pushed.builder.pushed.values())
    again = Chart(helm=chart.helm, folder=tmp_path / "di-orchestrator")
    pods = again.render(f"imageRegistry={pushed.name}").pods()
    used = {
        each["spec"]["containers"][0]["image"] for key, each in pods.items() if "test" not in key
    }
    assert set(pushed.builder.pushed) <= used
    with tarfile.open(pushed.directory / f"di-orchestrator-{VERSION}.tgz") as archive:
        entry = archive.extractfile("di-orchestrator/Chart.yaml")
        assert entry is not None
        assert yaml.safe_load(entry.read())["version"] == VERSION


def test_each_image_has_a_bill_of_materials_and_provenance(pushed: Pushed) -> None:
    provenance = (pushed.directory / "provenance.json").read_bytes()
    for service in SERVICES:
        subject = f"{pushed.name}/opendilab/di-{service}:{VERSION}"
        (bill,) = pushed.referrers(subject, SBOM)
        name = f"di-{service}.cdx.json"
        assert pushed.content(bill) == {name: (pushed.directory / "sbom" / name).read_bytes()}
        (said,) = pushed.referrers(subject, PROVENANCE)
        assert pushed.content(said) == {"provenance.json": provenance}
    (said,) = pushed.referrers(f"{pushed.name}/charts/di-orchestrator:{VERSION}", PROVENANCE)
    assert pushed.content(said) == {"provenance.json": provenance}


def test_every_artifact_is_signed_by_the_release_key(pushed: Pushed) -> None:
    stranger = _key(pushed.home, "stranger").certificate
    images = [f"{pushed.name}/opendilab/di-{service}:{VERSION}" for service in SERVICES]
    release = f"{pushed.name}/opendilab/release:{VERSION}"
    references = [
        *images,
        *(each for image in images for each in pushed.referrers(image, SBOM)),
        f"{pushed.name}/charts/di-orchestrator:{VERSION}",
        release,
    ]
    for reference in references:
        assert pushed.verified(reference, pushed.key.certificate), reference
    assert not pushed.verified(images[0], stranger)
    # What has the sums of all files is signed, so all files are.
    files = {name: (pushed.directory / name).read_bytes() for name in pushed.content(release)}
    assert pushed.content(release) == files
    assert pushed.oras("manifest", "fetch", release)["content"]["artifactType"] == RELEASE
    # A substituted image has no signature.
    pushed.builder.push_image(pushed.builder.pushed[images[0]][0], f"{images[0]}-other", plain=True)
    assert not pushed.verified(f"{images[0]}-other", pushed.key.certificate)


def test_the_private_key_is_not_pushed(pushed: Pushed) -> None:
    secret = pushed.key.file.read_bytes().splitlines()[1]
    kept = [*pushed.there.blobs.values(), *(body for _, body in pushed.there.manifests.values())]
    assert not any(secret in each for each in kept)


def test_an_unreachable_registry_is_reported(tmp_path: Path) -> None:
    _release(tmp_path)
    with registry() as gone:
        address = gone.address
    with pytest.raises(CommandFailed, match="connection refused"):
        push(Builder(gone), {}, tmp_path, registry=address, version=VERSION)


def test_a_key_without_its_certificate_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["localhost:5000", "out/release", "--key", "release.key"])
    assert "a key and its certificate go together" in capsys.readouterr().err


def _release(directory: Path) -> None:
    """As `make release` leaves it, as far as it is pushed."""
    pack_chart(CHART, directory / f"di-orchestrator-{VERSION}.tgz")
    (directory / "sbom").mkdir()
    for service in SERVICES:
        (directory / "sbom" / f"di-{service}.cdx.json").write_text(f'{{"of": "{service}"}}')
    (directory / "provenance.json").write_text('{"_type": "https://in-toto.io/Statement/v1"}')
    (directory / "SHA256SUMS").write_text("0  provenance.json\n")


def _key(folder: Path, name: str) -> Key:
    """A key for code signing that vouches for itself."""
    private = ec.generate_private_key(ec.SECP256R1())
    whose = x509.Name(
        [
            x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"),
            x509.NameAttribute(NameOID.STATE_OR_PROVINCE_NAME, "BE"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "example"),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )
    now = datetime.now(UTC)
    usage = dict.fromkeys(
        (
            *("content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
            *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
        ),
        False,
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(whose)
        .issuer_name(whose)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.KeyUsage(digital_signature=True, **usage), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False)
        .sign(private, hashes.SHA256())
    )
    key = Key(file=folder / f"{name}.key", certificate=folder / f"{name}.pem")
    key.file.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    key.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return key
