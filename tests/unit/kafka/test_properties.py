"""Properties that an API caller may set."""

from __future__ import annotations

import pytest

from penstock.core.errors import ConfigError
from penstock.kafka.properties import refuse_dangerous


@pytest.mark.parametrize(
    "name",
    [
        "plugin.library.paths",
        "oauth_cb",
        "ssl.ca.location",
        "ssl.keystore.location",
        "ssl.engine.location",
        "sasl.kerberos.kinit.cmd",
        "sasl.oauthbearer.token.endpoint.url",
        "https.ca.location",
        "bootstrap.servers",
        "some.future.property",
    ],
)
def test_an_api_caller_cannot_load_code_or_files(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        refuse_dangerous({name: "x", "client.id": "me"})
    assert caught.value.received == [name]


def test_an_api_caller_may_log_in_with_texts() -> None:
    refuse_dangerous({"security.protocol": "SASL_SSL", "sasl.username": "a", "sasl.password": "b", "ssl.ca.pem": "c"})
