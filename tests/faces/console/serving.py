"""A console over a seeded store, in a process of its own: `python -m tests.faces.console.serving FOLDER [OPTIONS]`.

`--pulse`: the pipelines go on; `--login`: users are asked for; `--crowd`: there are many more pipelines; `--slow`: a
search among dead letters has time to look at one only; `--store=ADDRESS`: it is there, in place of a file in the
folder. It ends when its standard input does.
"""

from __future__ import annotations

import sys
from functools import partialmethod
from pathlib import Path

from fastapi import FastAPI

from penstock.api.app import mount_api
from penstock.api.server import HttpServer
from penstock.config.http_settings import ApiSettings, HttpSettings
from penstock.config.settings import Settings, StoreSettings
from penstock.console.app import mount
from penstock.console.data import Data
from penstock.console.pages import dead_letters
from penstock.service.authentication import Authentication
from penstock.service.health import STARTING
from penstock.service.logs import configure_logs
from penstock.service.operations.desk import Desk
from penstock.service.passwords import hash_password
from penstock.store import Store
from penstock.store.letters import walking
from penstock.store.letters.listing import Listing
from tests.faces.console.seeding import PASSWORD, USERS, Pulse, crowd, seed
from tests.faces.console.work_seeding import JobHand, seed_work


def slow_down() -> None:
    walking._FIRST = 1  # type: ignore[misc]  # a million letters would do the same
    dead_letters._PATIENCE = 0  # type: ignore[misc]  # as above
    Listing.page = partialmethod(Listing.page, seconds=0)  # type: ignore[assignment, method-assign]  # as above


def main(folder: Path, options: list[str]) -> None:
    given = [option.removeprefix("--store=") for option in options if option.startswith("--store=")]
    url = given[0] if given else f"sqlite:///{folder / 'penstock.db'}"
    http = HttpSettings(auth="local" if "--login" in options else "off")
    settings = Settings(home=folder, store=StoreSettings(url=url), http=http, api=ApiSettings(networks=["127.0.0.0/8"]))
    with Store.open(url) as store:
        seed(store)
        seed_work(store, settings)
        if "--crowd" in options:
            crowd(store)
        if "--slow" in options:
            slow_down()
        desk, authentication = Desk(store, settings), Authentication(store, settings)
        if "--login" in options:
            authentication.write_first_token()
            for email, role in USERS.items():
                store.people.create(email, name=None, role=role, password=hash_password(PASSWORD))

        def extend(app: FastAPI) -> None:
            mount_api(app, desk, authentication)
            mount(app, Data(desk, authentication))

        server = HttpServer(health=lambda: STARTING, metrics=lambda: b"", port=0, extend=extend)
        pulse = Pulse(store, works="--pulse" in options)
        hand = JobHand(store)
        pulse.start()
        hand.start()
        print(server.start(), flush=True)  # noqa: T201 - whoever started this reads it
        sys.stdin.read()
        server.stop()
        pulse.stop()
        hand.stop()


if __name__ == "__main__":
    configure_logs()  # to where `served` looks for tracebacks
    main(Path(sys.argv[1]), sys.argv[2:])
