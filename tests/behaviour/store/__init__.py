"""The store's behaviour, one suite for all its databases."""

import pytest

# Pytest explains failed asserts only in modules it knows; the suites are not named like tests, but run in subclasses.
SUITES = ("dead_letters", "claims", "keeping", "pipelines", "offsets", "instances", "opening", "sharing")
pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in SUITES))
