"""WhereHows jobs in a database: which are read, how values are decrypted, and what is said of those that are bad."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from penstock.config.dialects.wherehows_job import JobSelection, StoredJob
from penstock.config.loading import Loaded, load
from penstock.service.validation import load_checked
from penstock.service.wherehows import lookups
from penstock.tables.errors import TargetError
from penstock.tables.jasypt import CannotDecrypt, decrypt
from penstock.tables.jobs import read_jobs
from penstock.tables.lookup_tables import wh_etl_job, wh_etl_job_property, wh_property
from penstock.tables.target import Target
from tests.unit.tables.conftest import Warehouse

MASTER = "master key 42"
SECRET = "ASNFZ4mrze/oKo/rhMbbtjnZgo27j52d"
"""`s3cret-value`, encrypted by Java with the master key and the salt 0123456789abcdef."""
PROPERTIES = {
    "group.id": "wherehows",
    "schemaRegistryUrl": "http://registry:8081/schemaRegistry",
    "zookeeper.connect": "zk:2181",
    "bootstrap.servers": "broker:9092",
    "auto.offset.reset": "smallest",
    "kafka.topics": "GobblinTrackingEvent",
    "kafka.processors": "models.kafka.GobblinTrackingCompactionProcessor",
    "kafka.db.tables": "stg_kafka_gobblin_compaction",
}


class Jobs:
    """Fills the configuration tables."""

    def __init__(self, warehouse: Warehouse, file: Path) -> None:
        self.warehouse = warehouse
        self.url = f"sqlite:///{file}"

    def add(self, number: int, properties: dict[str, Any], *, ref: int | None = None, **columns: Any) -> None:
        name = columns.pop("wh_etl_job_name", "KAFKA_CONSUMER_ETL")
        found = {"wh_etl_job_name": name, "ref_id": number if ref is None else ref, "ref_id_type": "APP"}
        self.warehouse.add(wh_etl_job, {"wh_etl_job_id": number, **found, **columns})
        for key, value in properties.items():
            row = {"property_name": key, **(value if isinstance(value, dict) else {"property_value": value})}
            self.warehouse.add(wh_etl_job_property, found | row)

    def read(self, *ids: int, key: str | None = None) -> list[StoredJob]:
        return read_jobs(JobSelection(self.url, ids, key))


@pytest.fixture
def jobs(tmp_path: Path) -> Jobs:
    file = tmp_path / "wherehows.db"
    return Jobs(Warehouse(Target(f"sqlite:///{file}")), file)


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    file = tmp_path / "master_key"
    file.write_text(f"{MASTER}\r\nsecond line\n")
    return file


def test_jobs_in_the_order_of_their_ids(jobs: Jobs) -> None:
    jobs.add(7, PROPERTIES, ref=3)
    jobs.add(9, {"group.id": "nine", "client.id": {"property_value": None}}, ref=4)
    nine, seven = jobs.read(9, 7)
    assert (nine.name, seven.name) == ("kafka_consumer_etl-4", "kafka_consumer_etl-3")
    assert {key: found.value for key, found in seven.properties.items()} == PROPERTIES
    assert {key: found.value for key, found in nine.properties.items()} == {"group.id": "nine"}
    assert (seven.row, nine.properties["group.id"].row) == ("wh_etl_job[7]", "wh_etl_job_property[9]")
    assert not (seven.problems)
    assert not (seven.disabled)


def test_rows_that_are_no_kafka_jobs(jobs: Jobs) -> None:
    jobs.add(1, {}, wh_etl_job_name="HIVE_DATASET_METADATA_ETL")
    jobs.add(2, PROPERTIES, is_active="N")
    jobs.add(3, PROPERTIES, is_active=None)
    other, inactive, active, missing = jobs.read(1, 2, 3, 4)
    assert other.problems == [
        (
            "wh_etl_job[1].wh_etl_job_name",
            "'HIVE_DATASET_METADATA_ETL' is no Kafka job",
            "jobs of this name are KAFKA_CONSUMER_ETL",
        )
    ]
    assert (inactive.disabled, active.disabled) == (True, False)
    assert missing.problems == [("wh_etl_job[4]", "there is no job 4 in wh_etl_job", None)]


def test_encrypted_values(jobs: Jobs, key_file: Path) -> None:
    jobs.add(
        7,
        {
            "sasl.password": {"property_value": SECRET, "is_encrypted": "Y"},
            "plain": {"property_value": "x", "is_encrypted": None},
        },
    )
    [job] = jobs.read(7, key=str(key_file))
    assert (job.properties["sasl.password"].value, job.properties["sasl.password"].secret) == ("s3cret-value", True)
    assert (job.properties["plain"].value, job.properties["plain"].secret) == ("x", False)
    jobs.warehouse.add(
        wh_property, {"property_name": "wherehows.encrypt.master.key.loc", "property_value": str(key_file)}
    )
    assert jobs.read(7)[0].properties["sasl.password"].value == "s3cret-value"


def test_the_default_place_of_the_master_key(jobs: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    jobs.add(7, {"sasl.password": {"property_value": SECRET, "is_encrypted": "Y"}})
    [job] = jobs.read(7)
    [(where, message, hint)] = job.problems
    assert where == "wh_etl_job_property[1].sasl.password"
    assert f"the master key file {tmp_path}/.wherehows/master_key cannot be read: No such file" in message
    assert hint is not None
    (tmp_path / ".wherehows").mkdir()
    (tmp_path / ".wherehows" / "master_key").write_text(MASTER)
    assert jobs.read(7)[0].problems == []


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (SECRET[:-4] + "AAAA", "was made with another key"),
        (SECRET[:16], "blocks of 8 are wanted"),
        ("not base64!", "is not Base64"),
        ("", "a salt of 8"),
    ],
)
def test_values_that_cannot_be_decrypted(jobs: Jobs, key_file: Path, value: str, message: str) -> None:
    jobs.add(7, {"sasl.password": {"property_value": value, "is_encrypted": "Y"}})
    [(where, said, _)] = jobs.read(7, key=str(key_file))[0].problems
    assert where == "wh_etl_job_property[1].sasl.password"
    assert message in said
    assert not value or value not in said


def test_texts_that_java_has_encrypted() -> None:
    assert decrypt("ASNFZ4mrze+v45nwPEsVTQ==", MASTER) == ""
    wrapped = "ASNFZ4mrze+Arbuzzw4VFukPLieEjXAM\r\nJaK+xDxA8vMoKQJ8rzzUKw==\r\n"
    assert decrypt(wrapped, MASTER) == "naïve ✓ 0123456789abcdef"
    with pytest.raises(CannotDecrypt):
        decrypt(SECRET, "another")


def test_the_tables_of_the_first_versions(tmp_path: Path) -> None:
    file = tmp_path / "old.db"
    target = Target(f"sqlite:///{file}")
    with target.transaction() as connection:
        for statement in (
            (
                "CREATE TABLE wh_kafka_property (wh_kafka_property_id INT, schema_registry_url TEXT, group_id TEXT,"
                " zookeeper_connect TEXT, auto_commit_interval_ms INT)"
            ),
            (
                "CREATE TABLE wh_kafka_topic (topic_name TEXT, wh_kafka_property_id INT, num_of_workers INT,"
                " processor TEXT, db_table TEXT)"
            ),
            "INSERT INTO wh_kafka_property VALUES (1, 'http://r', 'g', 'zk', 500)",
            "INSERT INTO wh_kafka_topic VALUES ('A', 1, 1, 'p', 't'), ('B', 1, 2, 'q', 'u'), ('C', 2, 1, 'r', 'v')",
        ):
            connection.execute(sa.text(statement))
    job, missing = read_jobs(JobSelection(f"sqlite:///{file}", (1, 2)))
    assert {key: found.value for key, found in job.properties.items()} == {
        "schemaRegistryUrl": "http://r",
        "zookeeper.connect": "zk",
        "group.id": "g",
        "auto.commit.interval.ms": "500",
        "kafka.topics": "A,B",
        "kafka.processors": "p,q",
        "kafka.db.tables": "t,u",
    }
    assert missing.problems[0][1] == "there is no job 2 in wh_kafka_property"


def test_databases_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="there is no file"):
        read_jobs(JobSelection(f"sqlite:///{tmp_path}/nowhere.db", (1,)))
    (tmp_path / "empty.db").touch()
    with pytest.raises(TargetError, match="has no table wh_etl_job"):
        read_jobs(JobSelection(f"sqlite:///{tmp_path}/empty.db", (1,)))


# -- the YAML file that names them ---------------------------------------------------------


@pytest.fixture
def load_file(jobs: Jobs, tmp_path: Path) -> Callable[..., Loaded]:
    def loaded(text: str, **environ: str) -> Loaded:
        file = tmp_path / "jobs.yaml"
        file.write_text(f"dialect: wherehows\n{text}")
        with lookups() as found:
            return load([file], {"WHZ_DB_URL": jobs.url, **environ}, found)

    return loaded


def said(loaded: Loaded) -> list[str]:
    return [str(problem).rpartition("/")[2] for problem in loaded.problems]


@pytest.mark.parametrize("written", ["[7, 9]", "${IDS}", "'[7, 9]'", "[7, '9']", "'7 , 9,7'"])
def test_forms_of_ids(jobs: Jobs, load_file: Callable[..., Loaded], written: str) -> None:
    for number in (7, 8, 9):
        jobs.add(number, PROPERTIES | {"group.id": f"g{number}"})
    loaded = load_file(f"jobs: {written}", IDS="7, 9")
    assert said(loaded) == []
    assert [(spec.name, spec.group) for spec in loaded.specs] == [
        ("kafka_consumer_etl-7", "g7"),
        ("kafka_consumer_etl-9", "g9"),
    ]
    assert loaded.specs[0].action.config["url"] == jobs.url


def test_one_bad_job_leaves_the_others(jobs: Jobs, load_file: Callable[..., Loaded]) -> None:
    jobs.add(7, PROPERTIES | {"kafka.processors": "p,q"})
    jobs.add(8, PROPERTIES, is_active="N")
    jobs.add(9, PROPERTIES | {"group.id": "g9"})
    loaded = load_file("properties: {client.id: x}\njobs: [7, 8, nine, 9, 10]")
    assert [spec.name for spec in loaded.specs] == ["kafka_consumer_etl-9"]
    assert [problem.path for problem in loaded.problems] == [
        "jobs",
        "wh_etl_job_property[6].kafka.topics",
        "wh_etl_job[10]",
    ]
    assert [problem.line for problem in loaded.problems] == [3, 3, 3]
    assert "kafka.processors has 2 elements" in said(loaded)[1]
    assert "the job is not active and was skipped" in [warning.message for warning in loaded.warnings]


def test_what_the_file_gives_to_all_jobs(jobs: Jobs, load_file: Callable[..., Loaded]) -> None:
    properties = {key: value for key, value in PROPERTIES.items() if key != "bootstrap.servers"}
    jobs.add(7, properties | {"auto.commit.interval.ms": "200"})
    assert said(load_file("jobs: 7"))[0].startswith("jobs.yaml:2: wh_etl_job[7].bootstrap.servers: required")
    more = (
        "properties: {bootstrap.servers: 'b:9092'}\noptions: {window: {max_records: 5}, failure_mode: THROW}\njobs: 7"
    )
    [spec] = load_file(more).specs
    assert spec.source.config.connection.bootstrap == "b:9092"
    assert (spec.options.window.max_records, spec.options.window.deadline) == (5, 0.2)
    assert spec.options.failure_mode == "THROW"
    bad = load_file("jobs: 7\nproperties:\n  bootstrap.servers: 'http://b:9092'")
    assert bad.problems[0].line == 4
    assert "jobs.yaml:4: bootstrap.servers: host:port without a scheme is wanted" in str(bad.problems[0])


def test_job_files_by_such_a_file(tmp_path: Path, load_file: Callable[..., Loaded]) -> None:
    (tmp_path / "files").mkdir()
    lines = [f"{key}={value}" for key, value in PROPERTIES.items() if key != "bootstrap.servers"]
    (tmp_path / "files" / "gobblin.job").write_text("\n".join(["job.type=kafka", *lines]))
    loaded = load_file("jobs_dir: files\nproperties: {bootstrap.servers: 'b:9092'}\noptions: {timeout: 5s}")
    assert said(loaded) == []
    [spec] = loaded.specs
    assert (spec.name, spec.options.timeout, spec.source.config.connection.bootstrap) == ("gobblin", 5.0, "b:9092")
    assert "there are no *.job files" in str(load_file("jobs_dir: nowhere").problems[0])


def test_the_configuration_of_a_back_end(jobs: Jobs, tmp_path: Path) -> None:
    jobs.add(7, PROPERTIES)
    file = tmp_path / "application.properties"
    file.write_text(f"kafka.consumer.etl.jobid = ${{WHZ_KAFKA_JOB_IDS}}\ndb.wherehows.url = {jobs.url}\nother.key=1\n")
    with lookups() as found:
        loaded = load([file], {"WHZ_KAFKA_JOB_IDS": "7, x"}, found)
    assert [spec.name for spec in loaded.specs] == ["kafka_consumer_etl-7"]
    assert [problem.path for problem in loaded.problems] == ["kafka.consumer.etl.jobid"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("job: 7", "jobs.yaml:2: job: unknown key; did you mean 'jobs'?"),
        ("database: x", "jobs.yaml:1: names no jobs; jobs: [7, 9], or"),
        ("jobs: [1]\ndatabase: 'jdbc:h2:mem:x'", "jobs.yaml:3: database: the database's address is neither"),
        ("jobs: ${NOT_SET}", "jobs.yaml:2: jobs: variable NOT_SET is not set"),
        ("jobs: [true, -1]", "jobs.yaml:2: jobs: the number of a job is wanted, not True"),
        ("jobs: [1]\noptions: {retry: {attempts: 0}}", "jobs.yaml:3: options.retry.attempts: a number at least 1"),
    ],
)
def test_bad_files(load_file: Callable[..., Loaded], text: str, problem: str) -> None:
    found = [str(each) for each in load_file(text).problems]
    assert problem in found[0]


def test_no_job_at_all(load_file: Callable[..., Loaded]) -> None:
    loaded = load_file("jobs: ${IDS}", IDS="")
    assert (loaded.specs, loaded.problems) == ([], [])
    assert loaded.warnings[0].message == "is empty: no job is started"
    assert load_file("enabled: false\njobs: 7").warnings[0].message == "the file is disabled and was skipped"


def test_no_secret_is_shown(jobs: Jobs, key_file: Path, tmp_path: Path) -> None:
    encrypted = {"property_value": SECRET, "is_encrypted": "Y"}
    jobs.add(7, PROPERTIES | {"sasl.username": encrypted, "auto.commit.interval.ms": encrypted | {"is_encrypted": "1"}})
    file = tmp_path / "jobs.yaml"
    file.write_text(f"dialect: wherehows\ndatabase: {jobs.url}\njobs: 7\nmaster_key_file: {key_file.name}\n")
    loaded = load_checked([file])
    assert [problem.path for problem in loaded.problems] == ["wh_etl_job_property[10].auto.commit.interval.ms"]
    assert "s3cret" not in str([problem.as_dict() for problem in loaded.problems])
    with jobs.warehouse.target.transaction() as connection:
        connection.execute(sa.delete(wh_etl_job_property).where(wh_etl_job_property.c.id == 10))
    [spec] = load_checked([file]).specs
    assert "s3cret-value" in spec.secrets


# -- topics, their processors and tables ---------------------------------------------------


def test_topics_whose_processor_or_table_is_not_there(jobs: Jobs, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from penstock import Processor\n\n\n"
        "class Own(Processor):\n"
        "    columns = ('cluster', 'colour', 'size')\n\n"
        "    def process(self, record, topic):\n"
        "        return None\n"
    )
    lists = {
        "A": ("gobblin-compaction", "stg_kafka_gobblin_compaction"),
        "B": ("com.example.Mine", "stg_kafka_gobblin_compaction"),
        "C": ("gobblin-lumos", "nowhere"),
        "D": ("./own.py:Own", "stg_kafka_gobblin_lumos"),
        "E": ("metadata.etl.kafka.MetadataChangeProcessor", "whatever"),
    }
    jobs.add(
        7,
        PROPERTIES
        | {
            "kafka.topics": ",".join(lists),
            "kafka.processors": ",".join(name for name, _ in lists.values()),
            "kafka.db.tables": ",".join(table for _, table in lists.values()),
        },
    )
    file = tmp_path / "jobs.yaml"
    file.write_text(f"dialect: wherehows\ndatabase: {jobs.url}\njobs: 7\n")
    loaded = load_checked([file])
    [spec] = loaded.specs
    assert spec.source.config.topics == ["A", "E"]
    told = [(problem.path.rpartition("].")[2], problem.message.partition(":")[0]) for problem in loaded.problems]
    assert told == [
        ("kafka.processors", "topic B is not read"),
        ("kafka.db.tables", "topic C is not read"),
        ("kafka.db.tables", "topic D is not read"),
    ]
    assert "table stg_kafka_gobblin_lumos has no column colour, size" in loaded.problems[2].message


def test_a_database_that_is_away_is_no_reason_to_refuse_topics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHZ_DB_URL", "jdbc:postgresql://127.0.0.1:1/wh")
    file = tmp_path / "gobblin.job"
    file.write_text("\n".join(["job.type=kafka", *(f"{key}={value}" for key, value in PROPERTIES.items())]))
    loaded = load_checked([file])
    assert loaded.problems == []
    assert [spec.name for spec in loaded.specs] == ["gobblin"]
