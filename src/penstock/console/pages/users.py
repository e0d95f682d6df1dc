"""Users and tokens: who is let in, and with which rights."""

from __future__ import annotations

from typing import Any, Final

from nicegui import ui
from pydantic import ValidationError

from penstock.console import words
from penstock.console.frame import Visit, pages
from penstock.console.parts import (
    asking,
    box,
    button,
    confirm,
    empty,
    facts,
    grow,
    heading,
    plain,
    problem,
    text,
    title,
)
from penstock.console.tables import Column, cell, table
from penstock.core.durations import parse_duration
from penstock.core.errors import ConfigError, PenstockError
from penstock.core.secrets import Secret
from penstock.service.access import ROLES
from penstock.service.operations import tokens, users
from penstock.service.operations.tokens import NewToken, TokenView
from penstock.service.operations.users import NewUser, UserChange, UserView

_USERS: Final = (
    Column("email", "User", lead=True),
    Column("name", "Name"),
    Column("role", "Role"),
    Column("state", "State", "chip"),
    Column("acts", "", "acts"),
)
_TOKENS: Final = (
    Column("name", "Token", lead=True),
    Column("prefix", "Begins", "mono"),
    Column("role", "Role"),
    Column("by", "Made by"),
    Column("expires", "Expires"),
    Column("used", "Used"),
    Column("state", "State", "chip"),
    Column("acts", "", "acts"),
)


@pages.page("/users", "Users", "/users")
async def users_and_tokens(visit: Visit) -> None:
    title("Users and tokens")
    if not visit.data.authentication.required:
        text("No log-in is asked for: everybody on this machine may do everything. `http.auth: local` changes that.")
    if visit.may("users.manage"):
        await _users(visit)
    await _tokens(visit)


async def _users(visit: Visit) -> None:
    found = await visit.ask(users.list_users)
    with box("head"):
        heading("Users")
        grow()
        button("New user…", lambda: _new_user(visit))
    if not found:
        empty("There are no users yet.", "Make one, give it a role, and set http.auth to local.")
        return
    by_email = {user.email: user for user in found}

    async def act(label: str, email: str) -> None:
        user = by_email[email]
        if label == "Role…":
            _role(visit, user)
        elif label == "Password…":
            _password(visit, user)
        elif label == "Delete…":
            _delete(visit, user)
        else:
            change = UserChange(disabled=not user.disabled)
            if await visit.tell(f"{email}: {label.lower()}d", users.change_user, user.id, change, user.revision):
                ui.navigate.reload()

    table(_USERS, [_user(user) for user in found], key="email", label="Users", on_act=act)


def _user(user: UserView) -> dict[str, Any]:
    return {
        "email": user.email,
        "email_text": cell(user.email),
        "name": cell(user.name or ""),
        "role": user.role or f"in {len(user.projects)} projects",
        "state": "disabled" if user.disabled else "let in",
        "state_tone": "rest" if user.disabled else "good",
        "acts": ["Role…", "Password…", "Enable" if user.disabled else "Disable", "Delete…"],
    }


def _new_user(visit: Visit) -> None:
    with asking("New user") as dialog:
        email = ui.input("E-mail address").classes("field").props("outlined dense autofocus")
        name = ui.input("Name").classes("field").props("outlined dense")
        role = ui.select(list(ROLES), value="viewer", label="Role").classes("field").props("outlined dense")
        password = ui.input("Password", password=True).classes("field").props("outlined dense")
        with box("errors") as errors:
            pass

        async def go() -> None:
            errors.clear()
            try:
                given = {"email": email.value, "name": name.value or None, "role": role.value}
                new = NewUser.model_validate(given | ({"password": password.value} if password.value else {}))
                await visit.ask(users.create_user, new)
            except (PenstockError, ValidationError) as error:
                with errors:
                    problem(error if isinstance(error, PenstockError) else _first(error))
                return
            ui.navigate.reload()

        with box("foot"):
            button("Cancel", dialog.close)
            button("Make", go, "main-act")
    dialog.open()


def _first(error: ValidationError) -> ConfigError:
    """What is wrong first, in words; never what was typed, which may be a password."""
    wrong = error.errors(include_input=False)[0]
    return ConfigError(f"{wrong['loc'][0] if wrong['loc'] else 'it'}: {wrong['msg']}")


def _role(visit: Visit, user: UserView) -> None:
    with asking(f"Role of {user.email}") as dialog:
        text("In the whole installation. It holds within seconds, also on pages that are open.", "muted")
        if user.projects:
            facts([(project, role) for project, role in user.projects.items()])
        role = ui.select(list(ROLES), value=user.role or "viewer", label="Role").classes("field")
        role.props("outlined dense")

        async def go() -> None:
            change = UserChange(role=role.value)
            if await visit.tell(f"{user.email}: {role.value}", users.change_user, user.id, change, user.revision):
                ui.navigate.reload()

        with box("foot"):
            button("Cancel", dialog.close)
            button("Set role", go, "main-act")
    dialog.open()


def _password(visit: Visit, user: UserView) -> None:
    with asking(f"Password of {user.email}") as dialog:
        text("All sessions of the user end.", "muted")
        password = ui.input("New password", password=True).classes("field").props("outlined dense autofocus")
        with box("errors") as errors:
            pass

        async def go() -> None:
            errors.clear()
            try:
                await visit.ask(users.set_password, user.id, Secret(str(password.value or "")))
            except PenstockError as error:
                with errors:
                    problem(error)
                return
            dialog.close()
            ui.notify("the password is set", type="positive")

        with box("foot"):
            button("Cancel", dialog.close)
            button("Set", go, "main-act")
    dialog.open()


def _delete(visit: Visit, user: UserView) -> None:
    async def go(_: str | None) -> None:
        try:
            await visit.ask(users.delete_user, user.id, user.revision)
        except PenstockError as error:
            ui.notify(str(error), type="negative")
            return
        ui.navigate.reload()

    say = "Sessions and tokens of the user end with it. What it did stays in the audit."
    confirm(f"Delete {user.email}?", say, go, button_label="Delete").open()


async def _tokens(visit: Visit) -> None:
    found = await visit.ask(tokens.list_tokens)
    with box("head"):
        heading("Tokens")
        grow()
        button("New token…", lambda: _new_token(visit))
    if not found:
        empty("There are no tokens yet.", "A token lets a program use the API with a role of its own.")
        return

    async def act(_: str, token_id: str) -> None:
        async def go(_: str | None) -> None:
            try:
                await visit.ask(tokens.revoke_token, token_id)
            except PenstockError as error:
                ui.notify(str(error), type="negative")
                return
            ui.navigate.reload()

        confirm("Revoke this token?", "Nobody is let in by it any more.", go, button_label="Revoke").open()

    table(_TOKENS, [_token(token) for token in found], key="id", label="Tokens", on_act=act)


def _token(token: TokenView) -> dict[str, Any]:
    state = "revoked" if token.revoked else "expired" if token.expired else "good"
    return {
        "id": token.id,
        "name": cell(token.name),
        "prefix": f"{token.prefix}…",
        "role": token.role,
        "by": cell(token.created_by),
        "expires": token.expires_at or "",
        "expires_text": words.moment_of(token.expires_at) if token.expires_at else "never",
        "used": token.used_at or "",
        "used_text": words.ago_of(token.used_at) if token.used_at else "never",
        "state": state,
        "state_tone": "good" if state == "good" else "rest",
        "acts": ["Revoke…"] if state == "good" else [],
    }


def _new_token(visit: Visit) -> None:
    with asking("New token") as dialog:
        name = ui.input("Name").classes("field").props("outlined dense autofocus")
        role = ui.select(list(ROLES), value="viewer", label="Role").classes("field").props("outlined dense")
        expires = ui.input("Expires in (empty: never)", value="90d").classes("field").props("outlined dense")
        with box("errors") as errors:
            pass

        async def go() -> None:
            errors.clear()
            try:
                seconds = parse_duration(str(expires.value)) if expires.value else None
                new = NewToken.model_validate({"name": name.value, "role": role.value, "expires_in": seconds})
                made = await visit.ask(tokens.create_token, new)
            except (PenstockError, ValueError) as error:
                wrong = _first(error) if isinstance(error, ValidationError) else error
                with errors:
                    problem(wrong)
                return
            shown.clear()
            with shown:
                text("Keep it: it is not shown again.")
                plain(made.token)
            make.visible = False
            dialog.props("persistent")  # a slip of the hand would lose it

        with box("") as shown:
            pass
        with box("foot"):
            button("Close", ui.navigate.reload)
            make = button("Make", go, "main-act")
    dialog.open()
