"""Key and trust stores (PEM, PKCS12, JKS) read into PEM text; JKS goes through the JDK's keytool."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

from penstock.core.errors import ConfigError

_JKS_MAGIC = b"\xfe\xed\xfe\xed"
_TYPES = ["PEM", "PKCS12", "JKS"]


def read_key_store(path: str, kind: str | None, password: str | None, key_password: str | None) -> tuple[str, str]:
    """Private key and certificate chain, as PEM text."""
    kind = _kind(path, kind)
    if kind == "PEM":
        text = _read(path).decode()
        key, certificates = _pem_blocks(text, "PRIVATE KEY"), _pem_blocks(text, "CERTIFICATE")
        if not key or not certificates:
            raise ConfigError(
                "a PEM key store holds a private key and its certificate chain; one of them is missing", received=path
            )
        return "".join(key), "".join(certificates)
    store = _pkcs12(path, kind, password, key_password)
    if store.key is None or store.cert is None:
        raise ConfigError(
            "the key store holds no private key with a certificate",
            received=path,
            hint="`keytool -list` shows its entries",
        )
    key_pem = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return key_pem, _pem(c.certificate for c in (store.cert, *store.additional_certs))


def read_trust_store(path: str, kind: str | None, password: str | None) -> str:
    """Trusted certificates, as PEM text."""
    kind = _kind(path, kind)
    if kind == "PEM":
        certificates = "".join(_pem_blocks(_read(path).decode(), "CERTIFICATE"))
    else:
        store = _pkcs12(path, kind, password, None)
        own = (store.cert,) if store.cert is not None else ()
        certificates = _pem(c.certificate for c in (*own, *store.additional_certs))
    if not certificates:
        raise ConfigError("the trust store holds no certificate", received=path)
    return certificates


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"the store cannot be read: {error.strerror}", received=path) from error


def _kind(path: str, kind: str | None) -> str:
    if kind is not None:
        if kind.upper() not in _TYPES:
            raise ConfigError("unknown type of store", received=kind, allowed=_TYPES)
        # Java reads a PKCS12 file that is declared as JKS, and the other way round: the content decides.
        if kind.upper() == "PEM":
            return "PEM"
    head = _read(path)[:64]
    if head.startswith(_JKS_MAGIC):
        return "JKS"
    return "PEM" if b"-----BEGIN" in head else "PKCS12"


def _pem_blocks(text: str, label: str) -> list[str]:
    blocks: list[str] = []
    inside: list[str] | None = None
    for line in text.splitlines():
        if line.startswith("-----BEGIN ") and line.rstrip("-").endswith(label):
            inside = []
        if inside is not None:
            inside.append(line)
            if line.startswith("-----END "):
                blocks.append("\n".join(inside) + "\n")
                inside = None
    return blocks


def _pem(certificates: Iterable[x509.Certificate]) -> str:
    return "".join(c.public_bytes(Encoding.PEM).decode() for c in certificates)


def _pkcs12(path: str, kind: str, password: str | None, key_password: str | None) -> pkcs12.PKCS12KeyAndCertificates:
    if kind == "JKS":
        raw, password = _jks_as_pkcs12(path, password, key_password)
    else:
        raw = _read(path)
    try:
        return pkcs12.load_pkcs12(raw, password.encode() if password is not None else None)
    except ValueError as error:
        raise ConfigError(
            "the store cannot be opened", received=path, hint="wrong password, or not a PKCS12 file"
        ) from error


def _jks_as_pkcs12(path: str, password: str | None, key_password: str | None) -> tuple[bytes, str]:
    if password is None:
        raise ConfigError(
            "a JKS store needs its password", received=path, hint="set ssl.keystore.password or ssl.truststore.password"
        )
    keytool = _keytool()
    # PKCS12 wants one password of six characters or more for all; it lives only for this call.
    carrier = f"{password}-carrier"
    # The folder is 0700 and gone after the call: the key never stays on disk in another place than the user's.
    with tempfile.TemporaryDirectory(prefix="penstock-store-", dir=_private_root()) as folder:
        target = Path(folder, "store.p12")
        argv = [keytool, "-importkeystore", "-noprompt", "-srckeystore", path, "-srcstoretype", "JKS"]
        argv += [
            "-destkeystore",
            str(target),
            "-deststoretype",
            "PKCS12",
            "-srcstorepass:env",
            "PENSTOCK_SRC",
            "-deststorepass:env",
            "PENSTOCK_DEST",
        ]
        if key_password is not None:
            # keytool takes a key's own password only together with its alias; without one it tries the store's.
            argv += [
                "-srcalias",
                _key_alias(keytool, path, password),
                "-srckeypass:env",
                "PENSTOCK_KEY",
                "-destkeypass:env",
                "PENSTOCK_DEST",
            ]
        _run(argv, path, {"PENSTOCK_SRC": password, "PENSTOCK_DEST": carrier, "PENSTOCK_KEY": key_password or password})
        return target.read_bytes(), carrier


def _key_alias(keytool: str, path: str, password: str) -> str:
    argv = [
        keytool,
        "-J-Duser.language=en",
        "-list",
        "-keystore",
        path,
        "-storetype",
        "JKS",
        "-storepass:env",
        "PENSTOCK_SRC",
    ]
    listed = _run(argv, path, {"PENSTOCK_SRC": password})
    aliases = [line.split(",", 1)[0].strip() for line in listed.splitlines() if "PrivateKeyEntry" in line]
    if not aliases:
        raise ConfigError("the key store holds no private key with a certificate", received=path)
    return aliases[0]


def _run(argv: list[str], path: str, secrets: dict[str, str]) -> str:
    # Passwords go through the environment: arguments are visible to every user of the machine.
    done = subprocess.run(argv, capture_output=True, text=True, env=os.environ | secrets, timeout=60, check=False)  # noqa: S603 - argument list, no shell
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip().splitlines()
        raise ConfigError(
            f"keytool cannot open the JKS store: {said[-1] if said else done.returncode}",
            received=path,
            hint="wrong password?",
        )
    return done.stdout


def _keytool() -> str:
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("keytool", path=str(Path(home, "bin"))) if home else None
    found = found or shutil.which("keytool")
    if found is None:
        raise ConfigError(
            "a JKS store needs the JDK's keytool, which is not on the path",
            hint="install a JDK, or convert the store to PKCS12 or PEM",
        )
    return found


def _private_root() -> str | None:
    home = os.environ.get("PENSTOCK_HOME")
    return home if home and Path(home).is_dir() else None
