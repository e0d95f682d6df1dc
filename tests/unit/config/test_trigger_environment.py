"""Lightning's environment variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config.problems import InvalidConfigError
from penstock.config.trigger_environment import TriggerDefaults


def test_nothing_set_leaves_penstocks_own_defaults() -> None:
    found = TriggerDefaults.of({"PATH": "/bin"})

    assert found == TriggerDefaults()
    assert found.enabled
    assert found.rate is None


def test_everything_set_is_taken(tmp_path: Path) -> None:
    found = TriggerDefaults.of(
        {
            "KAFKA_TRIGGERS_ENABLED": "no",
            "KAFKA_NUMBER_OF_CONSUMERS": "2",
            "KAFKA_NUMBER_OF_PROCESSORS": "3",
            "KAFKA_NUMBER_OF_MESSAGES_PER_SECOND": "0.05",
            "KAFKA_DUPLICATE_TRACKING_RETENTION_SECONDS": "60",
            "KAFKA_NOTIFICATION_EMBARGO_SECONDS": "0",
            "KAFKA_ALTERNATE_STORAGE_ENABLED": "yes",
            "KAFKA_ALTERNATE_STORAGE_FILE_PATH": str(tmp_path),
            "KAFKA_ALTERNATE_STORAGE_ENCRYPTED": "yes",
        }
    )

    assert found == TriggerDefaults(
        enabled=False,
        consumers=2,
        processors=3,
        rate=0.05,
        embargo_seconds=0.0,
        alternate_storage=tmp_path,
        encrypts_copies=True,
    )


def test_misspelt_names_are_understood_with_a_warning() -> None:
    found = TriggerDefaults.of(
        {
            "KAFKA_NOTIFICATTION_EMBARGO_SECONDS": "7",
            "KAFKA_ALTERNATE_STORAGE_ENABLED": "true",
            "KAFKA_ALTERNATE_STORAGE_PATH": "/srv/kafka",
        }
    )

    assert found.embargo_seconds == 7
    assert found.alternate_storage == Path("/srv/kafka")
    assert [warning.hint for warning in found.warnings] == [
        "write KAFKA_NOTIFICATION_EMBARGO_SECONDS",
        "write KAFKA_ALTERNATE_STORAGE_FILE_PATH",
    ]
    both = {"KAFKA_NOTIFICATTION_EMBARGO_SECONDS": "7", "KAFKA_NOTIFICATION_EMBARGO_SECONDS": "8"}
    assert TriggerDefaults.of(both).embargo_seconds == 8


def test_every_mistake_is_named() -> None:
    with pytest.raises(InvalidConfigError) as error:
        TriggerDefaults.of(
            {
                "KAFKA_TRIGGERS_ENABLED": "Yes",
                "KAFKA_NUMBER_OF_CONSUMERS": "0",
                "KAFKA_NUMBER_OF_PROCESSORS": "two",
                "KAFKA_NUMBER_OF_MESSAGES_PER_SECOND": "0",
                "KAFKA_DUPLICATE_TRACKING_RETENTION_SECONDS": "1.5",
                "KAFKA_ALTERNATE_STORAGE_ENABLED": "yes",
            }
        )

    named = {(problem.file or "").removeprefix("variable ") for problem in error.value.problems}
    assert named == {
        "KAFKA_TRIGGERS_ENABLED",
        "KAFKA_NUMBER_OF_CONSUMERS",
        "KAFKA_NUMBER_OF_PROCESSORS",
        "KAFKA_NUMBER_OF_MESSAGES_PER_SECOND",
        "KAFKA_DUPLICATE_TRACKING_RETENTION_SECONDS",
        "KAFKA_ALTERNATE_STORAGE_FILE_PATH",
    }
