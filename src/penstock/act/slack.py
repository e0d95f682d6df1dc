"""The `slack` action: what changes in the catalogue, told to a Slack channel."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Self

import orjson
from pydantic import Field, field_validator

from penstock.act.chat import Chat, ChatConfig
from penstock.act.entity_changes import Markup
from penstock.act.webhook import WebhookAwayError, WebhookError, WebhookRefusedError
from penstock.core.declarations import Address
from penstock.core.net.url import parse_url
from penstock.core.plugin import PipelineContext
from penstock.core.plugin_config import parse_config
from penstock.core.secrets import Secret

_AWAY = frozenset(
    {"fatal_error", "internal_error", "rate_limited", "ratelimited", "request_timeout", "service_unavailable"}
)
"""Slack's words for trouble that is its own; all others are about the message, the channel or the token."""


def _plain(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


class SlackConfig(ChatConfig):
    """Keys of the `slack` action."""

    bot_token: Secret
    """The bot's token."""
    signing_secret: Secret
    """Accepted for DataHub's sake: messages go out only, so there is nothing to verify."""
    default_channel: str = Field(min_length=1)
    """The channel's name or id."""
    api_url: Annotated[str, Address("url")] = "https://slack.com/api/"
    """Slack's API."""

    @field_validator("bot_token")
    @classmethod
    def _there(cls, token: Secret) -> Secret:
        if not token:
            raise ValueError("must not be empty")
        return token

    @field_validator("api_url")
    @classmethod
    def _address(cls, url: str) -> str:
        parse_url(url, allow_userinfo=True, example="https://slack.com/api/")
        return url


class Slack(Chat):
    """Posts as the bot."""

    config_model: ClassVar[type[SlackConfig]] = SlackConfig
    type_name: ClassVar[str] = "slack"
    markup = Markup(
        bold=lambda text: f"*{_plain(text)}*",
        link=lambda title, url: f"<{_plain(url).replace('|', '%7C')}|{_plain(title)}>",
        plain=_plain,
    )

    def __init__(self, config: SlackConfig, ctx: PipelineContext) -> None:
        self._url = f"{config.api_url.rstrip('/')}/chat.postMessage"
        self._channel = config.default_channel
        self._login = {"authorization": f"Bearer {config.bot_token.reveal()}"}
        super().__init__(config, ctx)

    @classmethod
    def create(cls, config: dict[str, Any], ctx: PipelineContext) -> Self:
        return cls(parse_config(SlackConfig, config, "slack"), ctx)

    def post(self, text: str) -> None:
        answer = self.request(self._url, {"channel": self._channel, "text": text}, self._login)
        try:
            told = orjson.loads(answer)
            done, error = bool(told["ok"]), str(told.get("error"))
        except (ValueError, TypeError, KeyError):
            raise WebhookError("Slack gave an answer that is not Slack's") from None
        if not done and error in _AWAY:
            raise WebhookAwayError(f"Slack is in trouble: {error}", received=error)
        if not done:
            raise WebhookRefusedError(f"Slack refused the message: {error}", received=error)
