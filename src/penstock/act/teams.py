"""The `teams` action: what changes in the catalogue, told to a channel of Microsoft Teams."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Self

from pydantic import field_validator

from penstock.act.chat import Chat, ChatConfig
from penstock.act.entity_changes import Markup
from penstock.core.declarations import Address
from penstock.core.net.url import parse_url
from penstock.core.plugin import PipelineContext
from penstock.core.plugin_config import parse_config
from penstock.core.secrets import Secret

_SPECIAL = re.compile(r"([\\`*_\[\]<>])")


def _plain(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


class TeamsConfig(ChatConfig):
    """Keys of the `teams` action."""

    webhook_url: Annotated[Secret, Address("url")]
    """The channel's webhook, of a connector or of a workflow."""

    @field_validator("webhook_url")
    @classmethod
    def _address(cls, url: Secret) -> Secret:
        parse_url(url.reveal(), allow_userinfo=True, example="https://example.webhook.office.com/…")
        return url


class Teams(Chat):
    """Posts a card with one text, in the form that connectors and workflows both take."""

    config_model: ClassVar[type[TeamsConfig]] = TeamsConfig
    type_name: ClassVar[str] = "teams"
    markup = Markup(
        bold=lambda text: f"**{_plain(text)}**",
        link=lambda title, url: f"[{_plain(title)}]({url})",
        plain=_plain,
    )

    def __init__(self, config: TeamsConfig, ctx: PipelineContext) -> None:
        self._url = config.webhook_url.reveal()
        super().__init__(config, ctx)

    @classmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Self:
        return cls(parse_config(TeamsConfig, config, "teams"), ctx)

    def post(self, text: str) -> None:
        card = {
            "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
            "type": "AdaptiveCard",
            "version": "1.4",
            "body": [{"type": "TextBlock", "text": text, "wrap": True}],
        }
        attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
        self.request(self._url, {"type": "message", "attachments": [attachment]})
