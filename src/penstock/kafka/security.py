"""Java-style client properties as librdkafka's: JAAS lines, stores, renamed and Java-only keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from penstock.core.errors import ConfigError

RENAMED = {
    "sasl.mechanism": "sasl.mechanisms",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "max.partition.fetch.bytes": "fetch.message.max.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "max.request.size": "message.max.bytes",
    "max.in.flight.requests.per.connection": "max.in.flight",
    "compression.type": "compression.codec",
    "sasl.login.connect.timeout.ms": "socket.connection.setup.timeout.ms",
    "socket.connection.setup.timeout.max.ms": "socket.connection.setup.timeout.ms",
}
"""Java's name to librdkafka's."""

_JAVA_ONLY = {
    "allow.auto.create.topics.java",
    "auto.include.jmx.reporter",
    "buffer.memory",
    "config.providers",
    "default.api.timeout.ms",
    "exclude.internal.topics",
    "interceptor.classes",
    "internal.leave.group.on.close",
    "key.deserializer",
    "key.serializer",
    "max.block.ms",
    "max.poll.records",
    "metric.reporters",
    "partitioner.class",
    "sasl.client.callback.handler.class",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "security.providers",
    "specific.avro.reader",
    "ssl.enabled.protocols",
    "ssl.engine.factory.class",
    "ssl.keymanager.algorithm",
    "ssl.protocol",
    "ssl.secure.random.implementation",
    "ssl.trustmanager.algorithm",
    "value.deserializer",
    "value.serializer",
}
_JAVA_ONLY_PREFIXES = (
    "metrics.",
    "schema.registry.",
    "basic.auth.",
    "kafkastore.",
    "confluent.",
    "sasl.login.refresh.",
)

_STORES = ("ssl.keystore.", "ssl.truststore.")
_JAAS = re.compile(r"\s*([\w.$]+)\s+(required|requisite|sufficient|optional)\b(.*?);?\s*$", re.IGNORECASE | re.DOTALL)
_JAAS_OPTION = re.compile(r"""([\w.]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([^\s;"']+))""", re.DOTALL)


def to_librdkafka(properties: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The properties by librdkafka's names, and a warning for each that it does not have."""
    warnings: list[str] = []
    out: dict[str, Any] = {}
    stores: dict[str, str] = {}
    jaas = None
    for name, value in properties.items():
        if name.startswith(_STORES):
            stores[name] = value
        elif name == "sasl.jaas.config":
            jaas = value
        elif name in _JAVA_ONLY or name.startswith(_JAVA_ONLY_PREFIXES):
            warnings.append(f"{name} means something to Java clients only; it is left out")
        else:
            out[RENAMED.get(name, name)] = value
    if out.get("ssl.endpoint.identification.algorithm") == "":
        out["ssl.endpoint.identification.algorithm"] = "none"
    if jaas is not None:
        out.update(from_jaas(jaas, out.get("sasl.mechanisms")))
    out.update(_from_stores(stores, out))
    return out, warnings


def from_jaas(line: str, mechanism: str | None) -> dict[str, str]:
    """The log-in of a JAAS line; the line itself, which holds a password, appears in no error."""
    match = _JAAS.match(line)
    if match is None:
        raise ConfigError(
            "sasl.jaas.config cannot be read",
            allowed='org.apache.kafka.common.security.plain.PlainLoginModule required username="…" password="…";',
            hint="module class, the word 'required', options as name=\"value\", and a semicolon",
        )
    module = match[1].rsplit(".", 1)[-1]
    options = {m[1]: _unquote(m) for m in _JAAS_OPTION.finditer(match[3])}
    if module == "PlainLoginModule":
        return {"sasl.mechanisms": mechanism or "PLAIN"} | _user(options, module)
    if module == "ScramLoginModule":
        if mechanism is None:
            raise ConfigError(
                "sasl.mechanism is missing",
                allowed=["SCRAM-SHA-256", "SCRAM-SHA-512"],
                hint="ScramLoginModule serves both; say which",
            )
        return {"sasl.mechanisms": mechanism} | _user(options, module)
    if module == "OAuthBearerLoginModule":
        return {"sasl.mechanisms": "OAUTHBEARER"} | _oauth(options)
    raise ConfigError(
        "this login module of sasl.jaas.config is not supported",
        received=match[1],
        allowed=["PlainLoginModule", "ScramLoginModule", "OAuthBearerLoginModule"],
        hint="for AWS MSK IAM and the like set oauth_cb: module:function",
    )


def _unquote(match: re.Match[str]) -> str:
    quoted = match[2] if match[2] is not None else match[3]
    return re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL) if quoted is not None else match[4]


def _user(options: Mapping[str, str], module: str) -> dict[str, str]:
    missing = [name for name in ("username", "password") if name not in options]
    if missing:
        raise ConfigError(f"sasl.jaas.config: {module} lacks {' and '.join(missing)}", allowed=["username", "password"])
    return {"sasl.username": options["username"], "sasl.password": options["password"]}


def _oauth(options: Mapping[str, str]) -> dict[str, str]:
    if "clientId" in options:
        out = {"sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.client.id": options["clientId"]}
        if "clientSecret" in options:
            out["sasl.oauthbearer.client.secret"] = options["clientSecret"]
        if "scope" in options:
            out["sasl.oauthbearer.scope"] = options["scope"]
        return out
    principal = options.get("unsecuredLoginStringClaim_sub")
    if principal is not None:
        return {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": f"principal={principal}"}
    return {}


def _from_stores(stores: Mapping[str, str], out: Mapping[str, Any]) -> dict[str, str]:
    """Key and trust stores as PEM text: it travels to executors with the configuration, no file is left behind."""
    if not stores:
        return {}
    # A tenth of a second that only users of stores pay, in every process.
    from penstock.kafka.keystores import read_key_store, read_trust_store  # noqa: PLC0415

    found: dict[str, str] = {}
    if "ssl.keystore.key" in stores:
        found["ssl.key.pem"] = stores["ssl.keystore.key"]
    if "ssl.keystore.certificate.chain" in stores:
        found["ssl.certificate.pem"] = stores["ssl.keystore.certificate.chain"]
    if "ssl.truststore.certificates" in stores:
        found["ssl.ca.pem"] = stores["ssl.truststore.certificates"]
    if "ssl.keystore.location" in stores:
        key, chain = read_key_store(
            stores["ssl.keystore.location"],
            stores.get("ssl.keystore.type"),
            stores.get("ssl.keystore.password"),
            out.get("ssl.key.password"),
        )
        found |= {"ssl.key.pem": key, "ssl.certificate.pem": chain}
    if "ssl.truststore.location" in stores:
        found["ssl.ca.pem"] = read_trust_store(
            stores["ssl.truststore.location"], stores.get("ssl.truststore.type"), stores.get("ssl.truststore.password")
        )
    return found
