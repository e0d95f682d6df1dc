"""A console over a seeded store, in a process of its own: `python -m tests.faces.console.serving FOLDER [OPTIONS]`.

`--pulse`: the pipelines go on; `--login`: users are asked for; `--crowd`: there are many more pipelines. It ends
when its standard input does.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fastapi import FastAPI

from penstock.api.app import mount_api
from penstock.api.server import HttpServer
from penstock.config.http_settings import ApiSettings, HttpSettings
from penstock.config.settings import Settings, StoreSettings
from penstock.console.app import mount
from penstock.console.data import Data
from penstock.service.authentication import Authentication
from penstock.service.health import STARTING
from penstock.service.operations.desk import Desk
from penstock.service.passwords import hash_password
from penstock.store import Store
from tests.faces.console.seeding import PASSWORD, USERS, Pulse, crowd, seed
from tests.faces.console.work_seeding import JobHand, seed_work


def main(folder: Path, options: list[str]) -> None:
    url = f"sqlite:///{folder / 'penstock.db'}"
    http = HttpSettings(auth="local" if "--login" in options else "off")
    settings = Settings(home=folder, store=StoreSettings(url=url), http=http, api=ApiSettings(networks=["127.0.0.0/8"]))
    with Store.open(url) as store:
        seed(store)
        seed_work(store, settings)
        if "--crowd" in options:
            crowd(store)
        desk, authentication = Desk(store, settings), Authentication(store, settings)
        if "--login" in options:
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
    main(Path(sys.argv[1]), sys.argv[2:])
