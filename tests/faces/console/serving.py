"""A console over a seeded store, in a process of its own: `python -m tests.faces.console.serving FOLDER [--pulse]`."""

from __future__ import annotations

import sys
from pathlib import Path

from penstock.api.server import HttpServer
from penstock.config.settings import Settings, StoreSettings
from penstock.console.app import mount
from penstock.console.data import Data
from penstock.service.health import STARTING
from penstock.store import Store
from tests.faces.console.seeding import Pulse, seed


def main(folder: Path, *, pulse: bool) -> None:
    url = f"sqlite:///{folder / 'penstock.db'}"
    settings = Settings(home=folder, store=StoreSettings(url=url))
    with Store.open(url) as store:
        seed(store)
        beating = Pulse(store)
        data = Data(store, settings, lambda: None)
        server = HttpServer(health=lambda: STARTING, metrics=lambda: b"", port=0, extend=lambda app: mount(app, data))
        print(server.start(), flush=True)  # noqa: T201 - whoever started this reads it
        if pulse:
            beating.start()
        sys.stdin.read()  # until whoever started this goes away
        server.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), pulse="--pulse" in sys.argv)
