"""Key and trust stores of all three kinds become the same PEM text."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12

from penstock.config.spec import ConnectionSpec
from penstock.core.errors import ConfigError
from penstock.kafka.client import KafkaClientConfig
from penstock.kafka.keystores import read_key_store, read_trust_store
from tests.support.certs import Certificates, make_certificates

PASSWORD = "st0re-pass"


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certs"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, certs: Certificates) -> Path:
    """`key.{pem,p12,jks}` with the client's key and chain, `trust.{pem,p12,jks}` with the authority."""
    folder = tmp_path_factory.mktemp("stores")
    key = load_pem_private_key(certs.client_key.read_bytes(), None)
    cert = x509.load_pem_x509_certificate(certs.client_cert.read_bytes())
    authority = x509.load_pem_x509_certificate(certs.ca_file.read_bytes())
    (folder / "key.pem").write_bytes(
        certs.client_key.read_bytes() + certs.client_cert.read_bytes() + certs.ca_file.read_bytes()
    )
    (folder / "trust.pem").write_bytes(certs.ca_file.read_bytes())
    how = BestAvailableEncryption(PASSWORD.encode())
    (folder / "key.p12").write_bytes(pkcs12.serialize_key_and_certificates(b"me", key, cert, [authority], how))  # type: ignore[arg-type]  # a key of any kind
    keytool("-importcert", "-alias", "ca", "-file", certs.ca_file, "-keystore", folder / "trust.p12")
    keytool("-importcert", "-alias", "ca", "-file", certs.ca_file, "-keystore", folder / "trust.jks", kind="JKS")
    source = ["-srckeystore", folder / "key.p12", "-srcstoretype", "PKCS12", "-srcstorepass", PASSWORD]
    target = ["-destkeystore", folder / "key.jks", "-deststoretype", "JKS", "-deststorepass", PASSWORD]
    subprocess.run(["keytool", "-importkeystore", "-noprompt", *source, *target], check=True, capture_output=True)
    return folder


def keytool(*arguments: str | Path, kind: str = "PKCS12") -> None:
    more = ["-noprompt", "-storetype", kind, "-storepass", PASSWORD]
    subprocess.run(["keytool", *map(str, arguments), *more], check=True, capture_output=True)


@pytest.mark.parametrize("kind", ["pem", "p12", "jks"])
@pytest.mark.parametrize("declared", [True, False])
def test_key_stores(folder: Path, certs: Certificates, kind: str, declared: bool) -> None:  # noqa: FBT001 - a parameter
    named = {"pem": "PEM", "p12": "PKCS12", "jks": "jks"}[kind] if declared else None
    key, chain = read_key_store(str(folder / f"key.{kind}"), named, PASSWORD, None)
    expected = load_pem_private_key(certs.client_key.read_bytes(), None)
    assert load_pem_private_key(key.encode(), None).private_numbers() == expected.private_numbers()  # type: ignore[union-attr]  # an RSA key
    found = x509.load_pem_x509_certificates(chain.encode())
    assert found[0] == x509.load_pem_x509_certificate(certs.client_cert.read_bytes())
    assert x509.load_pem_x509_certificate(certs.ca_file.read_bytes()) in found[1:]


@pytest.mark.parametrize("kind", ["pem", "p12", "jks"])
def test_trust_stores(folder: Path, certs: Certificates, kind: str) -> None:
    found = read_trust_store(str(folder / f"trust.{kind}"), None, PASSWORD)
    expected = [x509.load_pem_x509_certificate(certs.ca_file.read_bytes())]
    assert x509.load_pem_x509_certificates(found.encode()) == expected


def test_a_jks_key_with_a_password_of_its_own(folder: Path, tmp_path: Path) -> None:
    store = tmp_path / "own.jks"
    store.write_bytes((folder / "key.jks").read_bytes())
    change = ["-alias", "me", "-keystore", str(store), "-keypass", PASSWORD, "-new", "0ther-pass"]
    keytool("-keypasswd", *change, kind="JKS")
    key, _ = read_key_store(str(store), "JKS", PASSWORD, "0ther-pass")
    assert load_pem_private_key(key.encode(), None)


@pytest.mark.parametrize("kind", ["p12", "jks"])
@pytest.mark.parametrize("role", ["key", "trust"])
def test_a_wrong_password_is_told_and_not_shown(folder: Path, kind: str, role: str) -> None:
    path = str(folder / f"{role}.{kind}")
    with pytest.raises(ConfigError) as caught:
        read_key_store(path, None, "wr0ng-pass", None) if role == "key" else read_trust_store(path, None, "wr0ng-pass")
    assert caught.value.received == path
    assert "wr0ng-pass" not in str(caught.value.as_dict())


def test_what_is_missing_is_told(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "junk").write_bytes(b"junk")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_key_store(str(tmp_path / "absent"), None, PASSWORD, None)
    with pytest.raises(ConfigError, match="cannot be opened"):
        read_trust_store(str(tmp_path / "junk"), None, PASSWORD)
    with pytest.raises(ConfigError, match="unknown type"):
        read_trust_store(str(folder / "trust.pem"), "BCFKS", PASSWORD)
    with pytest.raises(ConfigError, match="one of them is missing"):
        read_key_store(str(folder / "trust.pem"), "PEM", None, None)
    with pytest.raises(ConfigError, match="no private key"):
        read_key_store(str(folder / "trust.p12"), "PKCS12", PASSWORD, None)
    with pytest.raises(ConfigError, match="needs its password"):
        read_key_store(str(folder / "key.jks"), "JKS", None, None)


def test_keytool_that_is_not_there_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(ConfigError, match="keytool"):
        read_key_store(str(folder / "key.jks"), "JKS", PASSWORD, None)


def test_nothing_of_a_jks_store_stays_behind(folder: Path, penstock_home: Path) -> None:
    penstock_home.mkdir(exist_ok=True)
    read_key_store(str(folder / "key.jks"), "JKS", PASSWORD, None)
    assert os.listdir(penstock_home) == []  # noqa: PTH208 - names are enough


@pytest.mark.parametrize("kind", ["pem", "p12", "jks"])
def test_a_client_takes_them(folder: Path, kind: str) -> None:
    java = {
        "security.protocol": "SSL",
        "ssl.keystore.location": str(folder / f"key.{kind}"),
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": PASSWORD,
        "ssl.truststore.location": str(folder / f"trust.{kind}"),
        "ssl.truststore.password": PASSWORD,
    }
    if kind == "pem":
        del java["ssl.key.password"]
    found = dict(KafkaClientConfig.of(ConnectionSpec(bootstrap="broker:9092", consumer_config=java)).properties)
    assert found["ssl.ca.pem"].startswith("-----BEGIN CERTIFICATE")
    assert "BEGIN PRIVATE KEY" in found["ssl.key.pem"]
    assert not any(name.startswith("ssl.keystore") for name in found)


def test_pem_texts_are_taken_as_they_are(certs: Certificates) -> None:
    java = {
        "security.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": certs.client_key.read_text(),
        "ssl.keystore.certificate.chain": certs.client_cert.read_text(),
        "ssl.truststore.certificates": certs.ca_file.read_text(),
    }
    found = dict(KafkaClientConfig.of(ConnectionSpec(bootstrap="broker:9092", consumer_config=java)).properties)
    assert found["ssl.ca.pem"] == certs.ca_file.read_text()
