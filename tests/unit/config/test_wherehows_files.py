"""WhereHows' job files: what they compile to, and what is said about them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.config.dialects.wherehows_job import JobSelection, Pairing, StoredJob
from penstock.config.loading import Loaded, load
from penstock.core.secrets import Scrubber

ENVIRON = {"WHZ_DB_URL": "jdbc:mysql://db:3306/wherehows", "WHZ_DB_USERNAME": "wh", "WHZ_DB_PASSWORD": "s3cret"}
TOPICS = """\
kafka.topics=GobblinTrackingEvent, MetastoreTableAuditEvent
kafka.processors=gobblin-compaction,metastore-audit
kafka.db.tables=stg_kafka_gobblin_compaction,stg_kafka_metastore_audit
"""
BASE = """\
job.type=kafka
group.id=wherehows
schemaRegistryUrl=http://registry:8081/schemaRegistry
bootstrap.servers=broker:9092
auto.offset.reset=smallest
"""


class Asked:
    """Knows only a few of the client's properties, and refuses what it was told to."""

    def __init__(self, refused: dict[str, tuple[str, str, str | None]] | None = None) -> None:
        self.refused = refused or {}

    def read_jobs(self, selection: JobSelection) -> Sequence[StoredJob]:
        raise NotImplementedError

    def refusal(self, pairing: Pairing, url: str, folder: str | None) -> tuple[str, str, str | None] | None:
        return self.refused.get(pairing.topic)

    def knows_property(self, name: str, value: str) -> bool:
        return name in {"client.id", "fetch.min.bytes", "fetch.message.max.bytes"}


def load_job(
    folder: Path, text: str, environ: dict[str, str] | None = None, *, name: str = "gobblin.job", lookups: Any = None
) -> Loaded:
    file = folder / name
    file.write_text(text)
    return load([file], dict(ENVIRON if environ is None else environ), lookups or Asked())


def said(loaded: Loaded) -> list[str]:
    return [str(problem).replace(str(Path(problem.file or "").parent) + "/", "") for problem in loaded.problems]


def warned(loaded: Loaded) -> list[str]:
    return [str(problem).replace(str(Path(problem.file or "").parent) + "/", "") for problem in loaded.warnings]


def test_a_job_is_one_pipeline(tmp_path: Path) -> None:
    loaded = load_job(tmp_path, BASE + TOPICS)
    assert (said(loaded), warned(loaded)) == ([], [])
    [spec] = loaded.specs
    source = spec.source.config
    assert (spec.name, spec.group, source.format, source.start) == ("gobblin", "wherehows", "wherehows", "earliest")
    assert source.topics == ["GobblinTrackingEvent", "MetastoreTableAuditEvent"]
    assert source.connection.bootstrap == "broker:9092"
    assert source.connection.schema_registry_url == "http://registry:8081/schemaRegistry"
    assert source.wherehows is not None
    assert source.wherehows.of("GobblinTrackingEvent") == ("UUID", "linkedin")
    assert spec.action.type == "processor"
    assert spec.action.config == {
        "url": "mysql+pymysql://wh:s3cret@db:3306/wherehows",
        "topics": {
            "GobblinTrackingEvent": {"processor": "gobblin-compaction", "table": "stg_kafka_gobblin_compaction"},
            "MetastoreTableAuditEvent": {"processor": "metastore-audit", "table": "stg_kafka_metastore_audit"},
        },
    }
    assert spec.origin == str(tmp_path / "gobblin.job")
    assert Scrubber(spec.secrets).scrub("s3cret") != "s3cret"


@pytest.mark.parametrize(
    ("lists", "problem"),
    [
        (
            "kafka.topics=A,B,C\nkafka.processors=p\nkafka.db.tables=t,u,v",
            (
                "gobblin.job:7: kafka.processors: the lists are not equally long: kafka.topics has 3 elements, "
                "kafka.processors has 1 element, kafka.db.tables has 3 elements; element 2 of kafka.topics, 'B', has "
                "no partner here; element by element, a topic belongs to a processor and a table"
            ),
        ),
        (
            "kafka.topics=A\nkafka.processors=p,q\nkafka.db.tables=t",
            (
                "gobblin.job:6: kafka.topics: the lists are not equally long: kafka.topics has 1 element, "
                "kafka.processors has 2 elements, kafka.db.tables has 1 element; element 2 of kafka.processors, 'q', "
                "has no partner here; element by element, a topic belongs to a processor and a table"
            ),
        ),
        (
            "kafka.topics=A\nkafka.db.tables=t",
            (
                "gobblin.job:1: kafka.processors: required (kafka.topics has 1 element, kafka.processors is missing, "
                "kafka.db.tables has 1 element)"
            ),
        ),
        (
            "kafka.topics=A,,C\nkafka.processors=p,q,r\nkafka.db.tables=t,u,v",
            (
                "gobblin.job:6: kafka.topics: element 2 is empty (kafka.topics has 3 elements, kafka.processors has 3 "
                "elements, kafka.db.tables has 3 elements)"
            ),
        ),
        (
            "kafka.topics=\nkafka.processors=p\nkafka.db.tables=t",
            (
                "gobblin.job:6: kafka.topics: element 1 is empty (kafka.topics has 1 element, kafka.processors has 1 "
                "element, kafka.db.tables has 1 element)"
            ),
        ),
    ],
)
def test_lists_that_do_not_fit(tmp_path: Path, lists: str, problem: str) -> None:
    loaded = load_job(tmp_path, BASE + lists)
    assert said(loaded) == [problem]
    assert loaded.specs == []


def test_lists_that_are_nearly_right(tmp_path: Path) -> None:
    lists = "kafka.topics = A , B,A,\nkafka.processors=p,q, r ,\nkafka.db.tables=t,u,v"
    loaded = load_job(tmp_path, BASE + lists)
    assert loaded.specs[0].action.config["topics"] == {
        "B": {"processor": "q", "table": "u"},
        "A": {"processor": "r", "table": "v"},
    }
    assert warned(loaded) == [
        "gobblin.job:6: kafka.topics: ends in a comma, behind which nothing stands",
        "gobblin.job:7: kafka.processors: ends in a comma, behind which nothing stands",
        "gobblin.job:6: kafka.topics: 'A' is named twice; its last processor and table are used",
    ]


def test_a_topic_that_cannot_be_used_leaves_the_others(tmp_path: Path) -> None:
    lists = "kafka.topics=A,B b,C\nkafka.processors=p,q,r\nkafka.db.tables=t,u,v"
    asked = Asked({"C": ("kafka.processors", "`r` is a Java class", "write a Python class")})
    loaded = load_job(tmp_path, BASE + lists, lookups=asked)
    assert loaded.specs[0].source.config.topics == ["A"]
    assert list(loaded.specs[0].action.config["topics"]) == ["A"]
    assert said(loaded) == [
        (
            "gobblin.job:6: kafka.topics: 'B b' is no legal topic name: letters, digits, '.', '_' and '-', at most 249 "
            "of them; it is not read"
        ),
        "gobblin.job:7: kafka.processors: topic C is not read: `r` is a Java class; write a Python class",
    ]


def test_all_that_a_job_lacks_is_said_at_once(tmp_path: Path) -> None:
    loaded = load_job(tmp_path, "job.type=kafka\nzookeeper.connect=zk:2181/kafka\n", {})
    assert [problem.path for problem in loaded.problems] == [
        "db.wherehows.url",
        "group.id",
        "kafka.topics",
        "kafka.processors",
        "kafka.db.tables",
        "schemaRegistryUrl",
        "bootstrap.servers",
    ]
    assert "brokers are asked directly, not by way of ZooKeeper" in said(loaded)[-1]
    assert "beside or in place of zookeeper.connect" in said(loaded)[-1]


def test_old_keys(tmp_path: Path) -> None:
    old = """\
zookeeper.connect=zk:2181
zookeeper.session.timeout.ms=6000
zookeeper.sync.time.ms=2000
auto.commit.interval.ms=300
auto.commit.enable=true
partition.assignment.strategy=range
offsets.storage=zookeeper
num.consumer.fetchers=1
client.id=wh
fetch.message.max.bytes=2000000
no.such.key=1
job.class=metadata.etl.kafka.KafkaConsumerEtl
max.schemas.per.subject=50
specific.avro.reader=false
"""
    loaded = load_job(tmp_path, BASE + TOPICS + old)
    [spec] = loaded.specs
    assert said(loaded) == []
    assert spec.source.config.connection.consumer_config == {"client.id": "wh", "fetch.message.max.bytes": "2000000"}
    assert spec.options.window.deadline == 0.3
    assert spec.source.config.wherehows is not None
    assert spec.source.config.wherehows.max_schemas == 50
    assert warned(loaded) == [
        (
            "gobblin.job:9: zookeeper.connect: accepted without effect: zookeeper.connect, zookeeper.session."
            "timeout.ms, zookeeper.sync.time.ms; groups and offsets are kept by Kafka itself"
        ),
        "gobblin.job:16: num.consumer.fetchers: accepted without effect: num.consumer.fetchers, offsets.storage",
        "gobblin.job:13: auto.commit.enable: not used: Penstock always commits, and only what is settled",
        "gobblin.job:14: partition.assignment.strategy: is set by Penstock itself; the value given is not used",
        "gobblin.job:19: no.such.key: not used: neither Penstock nor the Kafka client knows it",
    ]


@pytest.mark.parametrize("interval", ["60000", "1000"])
def test_a_long_commit_interval_changes_nothing(tmp_path: Path, interval: str) -> None:
    loaded = load_job(tmp_path, BASE + TOPICS + f"auto.commit.interval.ms={interval}")
    assert loaded.specs[0].options.window.deadline == 1.0


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("auto.commit.interval.ms=soon", "a whole number from 1 on is wanted, not 'soon'"),
        ("max.schemas.per.subject=0", "a whole number from 1 on is wanted, not '0'"),
        ("penstock.schemaid.type=GUID", "'GUID' is none of INT, LONG, UUID, SHA1"),
        ("penstock.registry.dialect=apicurio", "'apicurio' is none of linkedin, gobblin, confluent"),
        ("wherehows.values=v1", "'v1' is none of fixed, v0.2.1"),
    ],
)
def test_bad_values(tmp_path: Path, line: str, problem: str) -> None:
    loaded = load_job(tmp_path, BASE + TOPICS + line)
    assert said(loaded) == [f"gobblin.job:9: {line.partition('=')[0]}: {problem}"]


@pytest.mark.parametrize(
    ("written", "start"),
    [("smallest", "earliest"), ("largest", "latest"), ("earliest", "earliest"), ("latest", "latest")],
)
def test_where_to_begin(tmp_path: Path, written: str, start: str) -> None:
    loaded = load_job(tmp_path, BASE.replace("smallest", written) + TOPICS)
    assert loaded.specs[0].source.config.start_position == start


def test_the_old_default_skips_history_and_says_so(tmp_path: Path) -> None:
    loaded = load_job(tmp_path, BASE.replace("auto.offset.reset=smallest\n", "") + TOPICS)
    assert loaded.specs[0].source.config.start_position == "latest"
    assert "what the topics hold already is skipped" in warned(loaded)[0]
    loaded = load_job(tmp_path, BASE.replace("smallest", "middle") + TOPICS)
    assert said(loaded) == ["gobblin.job:5: auto.offset.reset: 'middle' is none of smallest, earliest, largest, latest"]


def test_wire_formats_by_topic(tmp_path: Path) -> None:
    more = """\
penstock.schemaid.type=long
penstock.schemaid.type.GobblinTrackingEvent=SHA1
penstock.registry.dialect.GobblinTrackingEvent=gobblin
penstock.registry.dialect.Other=confluent
"""
    loaded = load_job(tmp_path, BASE + TOPICS + more)
    wire = loaded.specs[0].source.config.wherehows
    assert wire is not None
    assert wire.of("GobblinTrackingEvent") == ("SHA1", "gobblin")
    assert wire.of("MetastoreTableAuditEvent") == ("LONG", "linkedin")
    assert warned(loaded) == ["gobblin.job:12: penstock.registry.dialect.Other: not used: the job has no topic 'Other'"]


def test_registries_and_their_log_in(tmp_path: Path) -> None:
    text = BASE.replace(
        "schemaRegistryUrl=http://registry:8081/schemaRegistry",
        "schema.registry.url=http://r1/schemaRegistry/ , http://r2/schemaRegistry\n"
        "schema.registry.basic.auth.user.info=ann:regpass",
    )
    spec = load_job(tmp_path, text + TOPICS).specs[0]
    connection = spec.source.config.connection
    assert connection.schema_registry_url == "http://r1/schemaRegistry,http://r2/schemaRegistry"
    assert connection.schema_registry_config == {"basic.auth.user.info": "ann:regpass"}
    assert "regpass" not in str(spec.shown())


def test_security_is_passed_on(tmp_path: Path) -> None:
    more = "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=$JAAS\nssl.ca.location=/ca.pem\n"
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="hidden-pw";'
    spec = load_job(tmp_path, BASE + TOPICS + more, ENVIRON | {"JAAS": jaas}).specs[0]
    properties = spec.source.config.connection.consumer_config
    assert properties["sasl.jaas.config"] == jaas
    assert properties.keys() == {"security.protocol", "sasl.mechanism", "sasl.jaas.config", "ssl.ca.location"}
    assert "hidden-pw" not in str(spec.shown())


def test_what_processors_are_told(tmp_path: Path) -> None:
    more = r"""
wherehows.values=v0.2.1
penstock.zone=Europe/Berlin
penstock.owners=false
penstock.expression.compaction_path=^(/a)/(b)/(\\d+)$
"""
    config = load_job(tmp_path, BASE + TOPICS + more).specs[0].action.config
    assert {key: config[key] for key in ("values", "zone", "owners", "expressions")} == {
        "values": "v0.2.1",
        "zone": "Europe/Berlin",
        "owners": False,
        "expressions": {"compaction_path": r"^(/a)/(b)/(\d+)$"},
    }


def test_variables(tmp_path: Path) -> None:
    text = (BASE + TOPICS).replace("=broker:9092", "=${BROKERS}").replace("=wherehows", "= $GROUP")
    loaded = load_job(tmp_path, text, ENVIRON | {"BROKERS": "b1:9092", "GROUP": "g"})
    assert (loaded.specs[0].group, loaded.specs[0].source.config.connection.bootstrap) == ("g", "b1:9092")
    text = text.replace("=${BROKERS}", "=a${BROKERS}:9092").replace("$GROUP", "$NOT_SET")
    loaded = load_job(tmp_path, text, ENVIRON | {"BROKERS": "b1:9092"})
    assert (loaded.specs[0].group, loaded.specs[0].source.config.connection.bootstrap) == (
        "$NOT_SET",
        "a${BROKERS}:9092",
    )
    assert warned(loaded) == ["gobblin.job:2: group.id: variable NOT_SET is not set; the text stays as it is"]


def test_a_key_that_is_written_twice(tmp_path: Path) -> None:
    loaded = load_job(tmp_path, BASE + TOPICS + "group.id=other\n")
    assert loaded.specs[0].group == "other"
    assert warned(loaded) == ["gobblin.job:9: group.id: is written 2 times; the last value is used"]


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (BASE + TOPICS + "job.disabled=false", "gobblin.job:9: job.disabled: the job is disabled and was skipped"),
        ("job.type=hive\n", "gobblin.job:1: job.type: 'hive' is no Kafka job; it was skipped"),
        (TOPICS, "gobblin.job:1: job.type: not set: only job.type=kafka is a Kafka job"),
    ],
)
def test_files_that_are_skipped(tmp_path: Path, text: str, warning: str) -> None:
    loaded = load_job(tmp_path, text)
    assert (loaded.specs, said(loaded), warned(loaded)) == ([], [], [warning])


def test_bad_files(tmp_path: Path) -> None:
    assert said(load_job(tmp_path, "a=1\nb=\\uXYZW")) == [
        "gobblin.job:2: \\u is not followed by four hexadecimal digits"
    ]
    assert "cannot be read" in str(load([tmp_path / "nowhere.job"], {}).problems[0])
    assert said(load_job(tmp_path, "a=1\n", name="log4j.properties"))[0].startswith(
        "log4j.properties:1: is no WhereHows job and names none"
    )


def test_folders_and_properties_files(tmp_path: Path) -> None:
    (tmp_path / "one.job").write_text(BASE + TOPICS)
    (tmp_path / "two.job").write_text(BASE.replace("=wherehows", "=two") + "kafka.topics=A")
    (tmp_path / "log4j.properties").write_text("log4j.rootLogger=INFO")
    loaded = load([tmp_path], dict(ENVIRON), Asked())
    assert [spec.name for spec in loaded.specs] == ["one"]
    assert {Path(problem.file or "").name for problem in loaded.problems} == {"two.job"}
    text = (BASE + TOPICS).replace("job.type=kafka\n", "")
    assert [spec.name for spec in load_job(tmp_path, text, name="three.properties").specs] == ["three"]


def test_the_database_of_a_file(tmp_path: Path) -> None:
    text = BASE + TOPICS + "db.wherehows.url=jdbc:postgresql://pg/wh\ndb.wherehows.username=u\ndb.wherehows.driver=x\n"
    assert load_job(tmp_path, text).specs[0].action.config["url"] == "postgresql+psycopg://u:s3cret@pg/wh"
    text = BASE + TOPICS + "db.wherehows.url=jdbc:oracle:thin:@x"
    assert said(load_job(tmp_path, text))[0].startswith("gobblin.job:9: db.wherehows.url: the database's address is")


def test_groups_are_unique(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.job").write_text(BASE + TOPICS)
    loaded = load([tmp_path], dict(ENVIRON), Asked())
    assert [spec.name for spec in loaded.specs] == ["one"]
    assert "two.job:2: group.id: the group 'wherehows' is taken by pipeline 'one'" in said(loaded)[0]


TOPIC_FILE = """\
kafka.consumer.topic=MetadataChangeEvent
kafka.processor=wherehows.processors.DummyProcessor
kafka.producer.topic=FailedMetadataChangeEvent
kafka.worker.count=2
consumer.bootstrap.servers=$B1,$B2
consumer.bootstrap.servers=b3:9092
consumer.group.id=mce
consumer.auto.offset.reset=earliest
consumer.schema.registry.url=http://registry:8081
consumer.key.deserializer=org.apache.kafka.common.serialization.StringDeserializer
producer.client.id=x
"""


def test_files_of_one_topic(tmp_path: Path) -> None:
    loaded = load_job(tmp_path, TOPIC_FILE, {"B1": "b1:9092"})
    [spec] = loaded.specs
    assert said(loaded) == []
    assert spec.source.config.connection.bootstrap == "b1:9092,$B2,b3:9092"
    assert (spec.group, spec.source.config.topics) == ("mce", ["MetadataChangeEvent"])
    assert spec.source.config.wherehows is not None
    assert spec.source.config.wherehows.of("MetadataChangeEvent") == ("INT", "confluent")
    assert (spec.action.type, spec.options.dead_letter.topic) == ("hello_world", "FailedMetadataChangeEvent")
    assert warned(loaded) == [
        "gobblin.job:6: consumer.bootstrap.servers: variable B2 is not set; the text stays as it is",
        "gobblin.job:11: producer.client.id: accepted without effect: producer.client.id",
        "gobblin.job:10: consumer.key.deserializer: not used: neither Penstock nor the Kafka client knows it",
    ]


def test_other_processors_of_such_files_are_refused(tmp_path: Path) -> None:
    text = TOPIC_FILE.replace("DummyProcessor", "MetadataChangeProcessor").replace("consumer.group.id=mce\n", "")
    assert [str(problem.path) for problem in load_job(tmp_path, text).problems] == [
        "kafka.processor",
        "consumer.group.id",
    ]


def test_problems_that_the_models_find_name_the_keys_of_the_file(tmp_path: Path) -> None:
    text = (BASE + TOPICS).replace("=broker:9092", "=http://broker").replace("=http://registry", "=registry")
    assert [(problem.path, problem.line) for problem in load_job(tmp_path, text).problems] == [
        ("bootstrap.servers", 4),
        ("schemaRegistryUrl", 3),
    ]
    text = TOPIC_FILE.replace("=$B1,$B2", "=http://b1").replace("=http://registry", "=registry")
    text = text.replace("=MetadataChangeEvent", "=Metadata Change")
    assert [(problem.path, problem.line) for problem in load_job(tmp_path, text).problems] == [
        ("consumer.bootstrap.servers", 6),
        ("consumer.schema.registry.url", 9),
        ("kafka.consumer.topic", 1),
    ]


def test_a_configuration_that_names_folders(tmp_path: Path) -> None:
    for name in ("lists", "topics"):
        (tmp_path / name).mkdir()
    (tmp_path / "lists" / "gobblin.job").write_text(BASE + TOPICS)
    (tmp_path / "topics" / "mce.job").write_text(TOPIC_FILE)
    text = "etl.jobs.dir=$WHZ_ETL_JOBS_DIR\nkafka.consumer.dir=topics\nwhitelist.mce=urn:li:corpuser:a\n"
    environ = ENVIRON | {"WHZ_ETL_JOBS_DIR": str(tmp_path / "lists"), "B1": "b1:9092", "B2": "b2:9092"}
    loaded = load_job(tmp_path, text, environ, name="application.properties")
    assert (said(loaded), [spec.name for spec in loaded.specs]) == ([], ["gobblin", "mce"])


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(max_size=200)
    | st.sampled_from(["kafka.topics", "kafka.consumer.topic", "job.type=kafka\n"]).map(str.encode)
)
def test_any_bytes_give_problems_or_warnings(tmp_path: Path, content: bytes) -> None:
    for name in ("any.job", "any.properties"):
        (tmp_path / name).write_bytes(content)
        loaded = load([tmp_path / name], dict(ENVIRON), Asked())
        assert not loaded.specs
        assert loaded.problems or loaded.warnings
