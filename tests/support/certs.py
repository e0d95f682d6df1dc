"""Certificates for TLS tests: an authority, a server made out to localhost, a client."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


@dataclass(frozen=True, kw_only=True)
class Certificates:
    """PEM files; keys are PKCS#8 without a password."""

    ca_file: Path
    server_cert: Path
    server_key: Path
    server_store: Path
    """Key, certificate and authority in one file, as Kafka's PEM key store wants them."""
    client_cert: Path
    client_key: Path


class Authority:
    """A certificate authority that lives as long as its object."""

    def __init__(self, name: str = "Penstock tests") -> None:
        self._key = _key()
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = _builder(self._name, self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self._cert = builder.add_extension(usage, critical=True).sign(self._key, hashes.SHA256())

    @property
    def pem(self) -> bytes:
        return self._cert.public_bytes(serialization.Encoding.PEM)

    def issue(self, name: str, *, expired: bool = False) -> tuple[bytes, bytes]:
        """(key, certificate) as PEM, good for servers on this machine and for clients."""
        key = _key()
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = _builder(subject, self._name, key.public_key(), expired=expired)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage(both), critical=False)
        return _private(key), builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def make_certificates(folder: Path, *, expired: bool = False) -> Certificates:
    """Make an authority and what it signs, as files in `folder`; `expired` is about the server's."""
    folder.mkdir(parents=True, exist_ok=True)
    authority = Authority()
    server_key, server_cert = authority.issue("localhost", expired=expired)
    client_key, client_cert = authority.issue("client")
    files = {
        "ca_file": authority.pem,
        "server_cert": server_cert,
        "server_key": server_key,
        "server_store": server_key + server_cert + authority.pem,
        "client_cert": client_cert,
        "client_key": client_key,
    }
    for name, content in files.items():
        (folder / f"{name}.pem").write_bytes(content)
    return Certificates(**{name: folder / f"{name}.pem" for name in files})


def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _private(key: rsa.RSAPrivateKey) -> bytes:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: rsa.RSAPublicKey, *, expired: bool = False
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    end = now + dt.timedelta(days=-1 if expired else 30)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - dt.timedelta(days=2)).not_valid_after(end)
