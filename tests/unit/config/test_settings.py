"""Instance settings: where they come from, and what is refused."""
# ruff: noqa: E501 - golden lines stay whole

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from penstock.config.problems import InvalidConfigError
from penstock.config.settings import Settings


def lines(environ: dict[str, str], cwd: Path) -> list[str]:
    with pytest.raises(InvalidConfigError) as raised:
        Settings.load(environ, cwd)
    return [str(problem).replace(f"{cwd}/", "") for problem in raised.value.problems]


def test_defaults(tmp_path: Path) -> None:
    settings = Settings.load({"HOME": str(tmp_path)}, tmp_path)
    assert settings.home == tmp_path / ".penstock"
    assert settings.store_url == f"sqlite:///{tmp_path}/.penstock/penstock.db"
    assert (settings.spark.master, settings.spark.conf) == ("local", {})
    assert (settings.http.enabled, settings.http.host, settings.http.port) == (True, "127.0.0.1", 8642)
    assert not settings.http.port_was_set
    engine = settings.engine
    assert (engine.carpool_lanes, engine.hot_lanes, engine.pinned_lanes) == (None, None, None)
    assert (engine.session_timeout, engine.stop_timeout) == (10.0, 30.0)
    assert (settings.log.level, settings.log.format) == ("info", "console")
    assert (settings.file, settings.warnings) == (None, ())
    assert pickle.loads(pickle.dumps(settings)) == settings  # noqa: S301 - our own bytes


def test_the_file_and_the_variables_that_go_before_it(tmp_path: Path) -> None:
    (tmp_path / "penstock.yaml").write_text(
        "home: state\n"
        "store: {url: '${DB:-postgresql://u:s3cret@h/db}'}\n"
        "spark: {master: 'spark://h:1', conf: {spark.ui.enabled: true, spark.driver.bindAddress: x}}\n"
        "http: {port: 9000}\n"
        "engine: null\n"
        "log: {level: DEBUG}\n"
    )
    settings = Settings.load(
        {
            "PENSTOCK_HTTP_PORT": "9001",
            "PENSTOCK_LOG_FORMAT": "json",
            "PENSTOCK_ENGINE_CARPOOL_LANES": "3",
            "PENSTOCK_ENGINE_SESSION_TIMEOUT": "6s",
            "PENSTOCK_SPARK_CONF_SPARK_UI_ENABLED": "false",
            "PENSTOCK_SPARK_CONF_spark__ui__showConsoleProgress": "false",
            "PENSTOCK_HTTP_HOST": "",
        },
        tmp_path,
    )
    assert settings.file == tmp_path / "penstock.yaml"
    assert settings.home == tmp_path / "state"
    assert settings.store_url == "postgresql://u:s3cret@h/db"
    assert settings.spark.master == "spark://h:1"
    assert settings.spark.conf == {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "x",
        "spark.ui.showConsoleProgress": "false",
    }
    assert (settings.http.port, settings.http.port_was_set, settings.http.host) == (9001, True, "127.0.0.1")
    assert (settings.log.level, settings.log.format) == ("debug", "json")
    assert (settings.engine.carpool_lanes, settings.engine.session_timeout) == (3, 6.0)
    assert "s3cret" not in f"{settings!r} {settings} {settings.shown()}"
    assert "s3cret" in settings.secrets


def test_where_the_file_is_looked_for(tmp_path: Path) -> None:
    here, home, other = (tmp_path / name for name in ("here", "home", "other"))
    for port, folder in enumerate((here, home, other), start=1):
        folder.mkdir()
        (folder / "penstock.yaml").write_text(f"http: {{port: {port}}}\n")
    environ = {"PENSTOCK_HOME": str(home), "PENSTOCK_CONFIG": str(other / "penstock.yaml")}
    assert Settings.load(environ, here).http.port == 3
    del environ["PENSTOCK_CONFIG"]
    assert Settings.load(environ, here).http.port == 1
    (here / "penstock.yaml").unlink()
    assert Settings.load(environ, here).http.port == 2
    assert Settings.load(environ, here).home == home


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    assert lines({"PENSTOCK_CONFIG": "nowhere.yaml"}, tmp_path) == [
        "nowhere.yaml: cannot be read: No such file or directory"
    ]


def test_bad_values_name_file_line_and_variable(tmp_path: Path) -> None:
    (tmp_path / "penstock.yaml").write_text(
        "http:\n  host: 0.0.0.0\n  prt: 3\nlog: {level: loud}\nspark:\n  conf: {ui.enabled: true}\nstorage: {}\n"
    )
    environ = {"PENSTOCK_HTTP_PORT": "many", "PENSTOCK_ENGINE_STOP_TIMEOUT": "soon"}
    assert sorted(lines(environ, tmp_path)) == [
        "penstock.yaml:2: http.host: '0.0.0.0' is refused: without authentication only 127.0.0.1, ::1 or localhost is allowed",
        "penstock.yaml:3: http.prt: unknown key; did you mean 'port'?",
        "penstock.yaml:4: log.level: 'loud' is none of debug, info, warning, error",
        "penstock.yaml:6: spark.conf.ui.enabled: is no Spark property; their names begin with spark.",
        "penstock.yaml:7: storage: unknown key; did you mean 'store'?",
        "variable PENSTOCK_ENGINE_STOP_TIMEOUT: engine.stop_timeout: a duration like 30s, 250ms or 1h30m is wanted, not 'soon'",
        "variable PENSTOCK_HTTP_PORT: http.port: a whole number is wanted, not 'many'",
    ]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_addresses(host: str, tmp_path: Path) -> None:
    assert Settings.load({"PENSTOCK_HTTP_HOST": host}, tmp_path).http.host == host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "example.org"])  # noqa: S104 - these are refused
def test_other_addresses_are_refused(host: str, tmp_path: Path) -> None:
    (line,) = lines({"PENSTOCK_HTTP_HOST": host}, tmp_path)
    assert line.startswith(f"variable PENSTOCK_HTTP_HOST: http.host: '{host}' is refused")


def test_a_variable_that_is_no_setting_is_warned_of(tmp_path: Path) -> None:
    environ = {"PENSTOCK_STORE_ULR": "x", "PENSTOCK_TEST_SKIP": "kafka", "PENSTOCK_CONFIG": ""}
    assert [*map(str, Settings.load(environ, tmp_path).warnings)] == [
        "variable PENSTOCK_STORE_ULR: is no setting; did you mean 'PENSTOCK_STORE_URL'?"
    ]


@pytest.mark.parametrize(
    ("text", "said"), [("- a\n", "a map of settings is wanted at the top"), ("a: [", "is not valid YAML")]
)
def test_a_file_that_is_none(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "penstock.yaml").write_text(text)
    assert said in lines({}, tmp_path)[0]
