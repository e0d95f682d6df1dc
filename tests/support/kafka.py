"""A real Apache Kafka for tests: up in two seconds; stopped, killed, paused, restarted on the same port and data."""

from __future__ import annotations

import base64
import contextlib
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.support.certs import Certificates
from tests.support.children import CHILDREN
from tests.support.fetch import CACHE, java, kafka_libs, locked, made_once
from tests.support.kafka_client import KafkaClient
from tests.support.ports import accepts, free_port
from tests.support.waiting import until

# The broker does little in tests: the first compiler level and the serial collector start fastest and use least.
_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
START_S = 60.0

_DEFAULTS = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    # A killed broker may come back only when its last session is over.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "auto.create.topics.enable": "false",
    "message.max.bytes": "20000000",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.cleaner.backoff.ms": "500",
    "log.segment.delete.delay.ms": "1000",
    "log.retention.check.interval.ms": "1000",
    "num.network.threads": "2",
    "num.io.threads": "4",
}


class Security:
    """What a broker asks of its clients on listeners beside the plain one.

    `SASL_PLAINTEXT` and `SASL_SSL` take PLAIN and SCRAM-SHA-512, `SSL` any client, `MTLS` those with a certificate.
    """

    LISTENERS = ("SASL_PLAINTEXT", "SASL_SSL", "SSL", "MTLS")

    def __init__(self, users: Mapping[str, str], certificates: Certificates) -> None:
        self.users = dict(users)
        self.certificates = certificates

    def properties(self) -> dict[str, str]:
        known = " ".join(f'user_{name}="{password}"' for name, password in self.users.items())
        plain = f"org.apache.kafka.common.security.plain.PlainLoginModule required {known};"
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        certs = self.certificates
        wanted = {
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(certs.server_store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certs.ca_file),
            "listener.name.mtls.ssl.client.auth": "required",
        }
        for listener in ("sasl_plaintext", "sasl_ssl"):
            wanted[f"listener.name.{listener}.plain.sasl.jaas.config"] = plain
            wanted[f"listener.name.{listener}.scram-sha-512.sasl.jaas.config"] = scram
        return wanted


class KafkaBroker(KafkaClient):
    """One Apache Kafka broker (its own controller, unless given voters) in a temporary folder."""

    def __init__(
        self,
        *,
        security: Security | None = None,
        properties: Mapping[str, str] | None = None,
        node_id: int = 1,
        voters: Mapping[int, int] | None = None,
        cluster_id: str | None = None,
        jvm: Sequence[str] = _JVM,
        port: int | None = None,
    ) -> None:
        self.node_id = node_id
        self.security = security
        self.port = port or free_port()
        self.ports = {"PLAINTEXT": self.port}
        if security:
            self.ports |= {name: free_port() for name in Security.LISTENERS}
        self._voters = dict(voters) if voters else {node_id: free_port()}
        self._cluster_id = cluster_id or new_id()
        self._properties = dict(properties or {})
        self._jvm = tuple(jvm)
        self._process: subprocess.Popen[bytes] | None = None
        self.folder = CHILDREN.folder(Path(tempfile.mkdtemp(prefix="penstock-kafka-")))
        self.log = self.folder / "broker.log"

    @property
    def bootstrap(self) -> str:  # type: ignore[override]  # computed here, a plain attribute for clients of other clusters
        return self.bootstrap_for("PLAINTEXT")

    def bootstrap_for(self, listener: str) -> str:
        """Address of one of `PLAINTEXT`, `SASL_PLAINTEXT`, `SASL_SSL`, `SSL`, `MTLS`."""
        # The certificate is made out to the name; the others save the look-up.
        host = "localhost" if listener in ("SASL_SSL", "SSL", "MTLS") else "127.0.0.1"
        return f"{host}:{self.ports[listener]}"

    @property
    def pid(self) -> int:
        assert self._process, "the broker does not run"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start and wait until the broker answers; also after `stop` and `kill`, on the same port and data."""
        self.launch()
        self.wait_ready()
        return self

    def launch(self, *jvm: str) -> None:
        """Start without waiting."""
        assert self._process is None, "the broker runs already"
        if not (self.folder / "data").exists():
            self._format()
        config = self.folder / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in self._settings().items()))
        options = jvm or (f"-XX:SharedArchiveFile={class_archive()}",)
        command = [java(), *self._jvm, *options, "-cp", classpath(), "kafka.Kafka", str(config)]
        with self.log.open("ab") as log:
            self._process = CHILDREN.spawn(command, name=f"Kafka broker {self.node_id}", output=log, cwd=self.folder)

    def _format(self) -> None:
        data = self.folder / "data"
        shutil.copytree(_formatted(), data)
        lines = ["version=1", f"cluster.id={self._cluster_id}", f"node.id={self.node_id}", f"directory.id={new_id()}"]
        (data / "meta.properties").write_text("\n".join(lines) + "\n")

    def _settings(self) -> dict[str, str]:
        names = [("CONTROLLER", self._voters[self.node_id]), *self.ports.items()]
        copies = str(min(3, len(self._voters)))
        protocols = {"CONTROLLER": "PLAINTEXT", "MTLS": "SSL"}
        settings = _DEFAULTS | {
            "node.id": str(self.node_id),
            "log.dirs": str(self.folder / "data"),
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in names),
            "advertised.listeners": ",".join(f"{name}://{self.bootstrap_for(name)}" for name in self.ports),
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": ",".join(f"{name}:{protocols.get(name, name)}" for name, _ in names),
            "controller.quorum.voters": ",".join(f"{node}@127.0.0.1:{port}" for node, port in self._voters.items()),
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": "1",
        }
        return settings | (self.security.properties() if self.security else {}) | self._properties

    def wait_ready(self) -> None:
        # The client backs off after a refused connection, so it is asked only once the port is open.
        until(self._listening, START_S, lambda: f"Kafka broker is up; its log ends with\n{self.log_tail()}")
        until(self._answers, START_S, lambda: f"Kafka broker answers; its log ends with\n{self.log_tail()}")

    def _listening(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"the Kafka broker ended by itself:\n{self.log_tail()}"
        return accepts(self.port)

    def _answers(self) -> bool:
        client = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        with contextlib.suppress(KafkaException):
            return self.node_id in client.list_topics(timeout=2).brokers
        return False

    def log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-4000:] if self.log.exists() else "(empty)"

    def stop(self) -> None:
        """SIGTERM and wait: the broker hands over and closes its log."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        self._process.send_signal(signal.SIGCONT)
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=10)
        CHILDREN.ended(self._process)
        self._process = None

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing answers."""
        assert self._process
        self._process.send_signal(signal.SIGSTOP)
        pid = self._process.pid
        # The signal takes effect a moment later; until then the broker answers.
        until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, 10, "the broker to stand still")

    def unpause(self) -> None:
        assert self._process
        self._process.send_signal(signal.SIGCONT)

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        """End the broker at once and remove its folder."""
        self.kill()
        CHILDREN.remove(self.folder)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def client_config(self, listener: str = "PLAINTEXT", **more: Any) -> dict[str, Any]:
        """librdkafka settings for a listener with the first known user, SCRAM by default."""
        settings: dict[str, Any] = {"bootstrap.servers": self.bootstrap_for(listener)}
        if listener == "PLAINTEXT":
            return settings | more
        assert self.security
        certs = self.security.certificates
        settings["security.protocol"] = "SSL" if listener == "MTLS" else listener
        if listener.startswith("SASL"):
            user, password = next(iter(self.security.users.items()))
            settings |= {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": user, "sasl.password": password}
        if listener != "SASL_PLAINTEXT":
            settings["ssl.ca.location"] = str(certs.ca_file)
        if listener == "MTLS":
            settings |= {
                "ssl.certificate.location": str(certs.client_cert),
                "ssl.key.location": str(certs.client_key),
            }
        return settings | more


class KafkaCluster(KafkaClient):
    """Several brokers, each a controller too; topics get as many copies as asked for."""

    def __init__(
        self, n: int = 3, *, properties: Mapping[str, str] | None = None, ports: Sequence[int] | None = None
    ) -> None:
        voters = {node: free_port() for node in range(1, n + 1)}
        own = dict(zip(voters, ports or [free_port() for _ in voters], strict=True))
        shared = {"min.insync.replicas": str(max(1, n - 1))} | dict(properties or {})
        cluster_id = new_id()
        self.brokers = [
            KafkaBroker(node_id=node, voters=voters, cluster_id=cluster_id, properties=shared, port=own[node])
            for node in voters
        ]

    @property
    def bootstrap(self) -> str:  # type: ignore[override]  # as above
        return ",".join(broker.bootstrap for broker in self.brokers)

    def start(self) -> Self:
        # A controller is up only when a majority is, so nobody waits before all are launched.
        for broker in self.brokers:
            broker.launch()
        for broker in self.brokers:
            broker.wait_ready()
        until(
            lambda: len(self.admin.list_topics(timeout=5).brokers) == len(self.brokers), START_S, "all brokers are in"
        )
        return self

    def leader(self, topic: str, partition: int = 0) -> KafkaBroker:
        """The broker that leads a partition."""
        node = self.admin.list_topics(topic, timeout=20).topics[topic].partitions[partition].leader
        return next(broker for broker in self.brokers if broker.node_id == node)

    def close(self) -> None:
        for broker in self.brokers:
            broker.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


def new_id() -> str:
    """An id as Kafka writes them: a UUID in 22 characters."""
    while True:
        made = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # Kafka's own never begin with a dash, so that they pass as arguments.
        if not made.startswith("-"):
            return made


def classpath() -> str:
    # Sorted, because the class archive is only used when the path is the same.
    return ":".join(str(jar) for jar in sorted(kafka_libs().glob("*.jar")))


def _formatted() -> Path:
    """A formatted data folder, made once; its ids are replaced in each copy."""
    return made_once(CACHE / "kafka" / "formatted", _format_into)


def _format_into(folder: Path) -> None:
    config = folder / "server.properties"
    data = folder / "data"
    lines = ["process.roles=broker,controller", "node.id=1", f"log.dirs={data}", "controller.listener.names=CONTROLLER"]
    lines += ["listeners=CONTROLLER://127.0.0.1:19093,PLAINTEXT://127.0.0.1:19092"]
    lines += ["controller.quorum.voters=1@127.0.0.1:19093"]
    lines += ["listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT"]
    config.write_text("\n".join(lines) + "\n")
    command = [java(), "-Xmx128m", "-cp", classpath(), "kafka.tools.StorageTool", "format", "-t", new_id()]
    subprocess.run([*command, "-c", str(config)], check=True, capture_output=True, timeout=120)
    config.unlink()
    for file in list(data.iterdir()):
        file.rename(folder / file.name)
    data.rmdir()


def class_archive() -> Path:
    """The broker's classes as an archive the JVM maps in; made once, takes more than a second off each start."""
    archive = CACHE / "kafka" / "cds.jsa"
    if not archive.exists():
        with locked(archive.with_name(".cds.lock")):
            if not archive.exists():
                _make_archive(archive)
    return archive


def _make_archive(archive: Path) -> None:
    half = archive.with_suffix(".half")
    broker = KafkaBroker()
    try:
        broker.launch(f"-XX:ArchiveClassesAtExit={half}")
        broker.wait_ready()
        broker.create_topic("first")
        broker.produce("first", [b"record"])
        broker.stop()
        half.rename(archive)
    finally:
        broker.close()
