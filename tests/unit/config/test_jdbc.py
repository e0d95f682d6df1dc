"""JDBC and SQLAlchemy addresses of databases."""

from __future__ import annotations

import pytest

from penstock.config.dialects.jdbc import database_address
from penstock.core.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("jdbc:mysql://db:3306/wherehows", "mysql+pymysql://wh:p%40ss%2F@db:3306/wherehows"),
        (
            "jdbc:mysql://db/wherehows?useUnicode=yes&characterEncoding=UTF-8&useSSL=false",
            "mysql+pymysql://wh:p%40ss%2F@db/wherehows",
        ),
        ("jdbc:mysql://db/wh?user=ann&password=b%26c", "mysql+pymysql://ann:b%26c@db/wh"),
        ("jdbc:mariadb://[::1]:3307/wh", "mariadb+pymysql://wh:p%40ss%2F@[::1]:3307/wh"),
        ("jdbc:postgresql://db/wh", "postgresql+psycopg://wh:p%40ss%2F@db/wh"),
        (
            "JDBC:postgresql://db/wh?ssl=true&currentSchema=etl&ApplicationName=x",
            "postgresql+psycopg://wh:p%40ss%2F@db/wh?sslmode=verify-full&options=-csearch_path%3Detl&application_name=x",
        ),
        ("jdbc:sqlite:/var/wh.db", "sqlite:////var/wh.db"),
        ("postgresql://ann:secret@db/wh", "postgresql://ann:secret@db/wh"),
        ("postgresql+psycopg://db/wh?sslmode=require", "postgresql+psycopg://wh:p%40ss%2F@db/wh?sslmode=require"),
        ("sqlite:///wh.db", "sqlite:///wh.db"),
    ],
)
def test_addresses(text: str, expected: str) -> None:
    assert database_address(f" {text} ", "wh", "p@ss/").url == expected


def test_without_a_log_in() -> None:
    assert database_address("jdbc:mysql://db/wh").url == "mysql+pymysql://db/wh"
    assert database_address("jdbc:mysql://db/wh", "wh").url == "mysql+pymysql://wh@db/wh"


def test_what_cannot_be_carried_over_is_said() -> None:
    found = database_address("jdbc:mysql://a:1,b:2/wh?useSSL=true&serverTimezone=UTC")
    assert found.url == "mysql+pymysql://a:1/wh"
    assert found.notes[0] == "only the first of 2 hosts is used"
    assert found.notes[1].startswith("useSSL of the JDBC address cannot be carried over")


@pytest.mark.parametrize("text", ["", "db:3306", "jdbc:h2:mem:x", "jdbc:mysql:db", "jdbc:oracle:thin:@db:1521/x"])
def test_others_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="neither a JDBC nor a SQLAlchemy URL"):
        database_address(text)


def test_no_password_is_shown() -> None:
    with pytest.raises(ConfigError) as refused:
        database_address("jdbc:oracle://ann:s3cret@db/x")
    assert "s3cret" not in str(refused.value.as_dict())
