"""`penstock doctor`: finds what a run would stumble over."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from penstock.service.doctor import check_home, check_java, check_port
from tests.faces.cli import penstock


def test_a_good_machine_passes() -> None:
    result = penstock("doctor", "--json")
    assert result.code == 0
    verdicts = {check["name"]: check["verdict"] for check in result.data}
    assert {"python", "java", "spark", "kafka client", "settings", "home", "store", "http port"} <= set(verdicts)
    assert "failed" not in verdicts.values()


def test_without_java(tmp_path: Path) -> None:
    result = penstock("doctor", "--json", JAVA_HOME=str(tmp_path))
    assert result.code == 1
    (java,) = [check for check in result.data if check["name"] == "java"]
    assert java["verdict"] == "failed"
    assert "17" in java["hint"]


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ('openjdk version "17.0.15" 2025-04-15', "ok"),
        ('openjdk version "21" 2023-09-19', "ok"),
        ('openjdk version "24.0.1" 2025-04-15', "warning"),
        ('java version "1.8.0_401"', "failed"),
        ("what?", "failed"),
    ],
)
def test_java_versions(said: str, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{said}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert check_java().verdict == verdict


def test_a_home_that_cannot_be(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert check_home(file / "home").verdict == "failed"
    assert check_home(tmp_path / "a" / "b").verdict == "ok"


def test_a_taken_port_matters_only_when_it_was_asked_for() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert check_port("127.0.0.1", port, asked_for=True).verdict == "failed"
        assert check_port("127.0.0.1", port, asked_for=False).verdict == "warning"


def test_a_store_that_is_away_is_told_without_its_password() -> None:
    result = penstock("doctor", PENSTOCK_STORE_URL="postgresql://u:hunter22@127.0.0.1:1/none")
    assert result.code == 1
    assert "hunter22" not in result.out + result.err


def test_wrong_settings_are_told(tmp_path: Path) -> None:
    result = penstock("doctor", "--json", PENSTOCK_HTTP_PORT="many")
    assert result.code == 1
    assert result.data[-1]["name"] == "settings"
