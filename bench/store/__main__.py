"""`python -m bench.store`: measure the store with many dead letters and write the results."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.support.children import CHILDREN
from tests.support.postgres import PostgresServer

from bench.machine import facts
from bench.report import RESULTS, Result, show, write
from bench.store.letters import measure
from penstock.store import Store


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.store", description=__doc__)
    parser.add_argument("databases", nargs="*", default=["postgresql"], help="postgresql, sqlite")
    parser.add_argument("--letters", type=int, default=1_000_000)
    parser.add_argument("--copies", type=int, default=10, help="of each letter on PostgreSQL; 1: all are recorded")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder to write to")
    options = parser.parse_args()
    machine = facts()
    results: list[Result] = []
    try:
        if "postgresql" in options.databases:
            with PostgresServer() as server, Store.open(server.create_database()) as store:
                results += measure(store, "PostgreSQL", options.letters, options.copies)
        if "sqlite" in options.databases:
            with tempfile.TemporaryDirectory() as folder, Store.open(f"sqlite:///{folder}/store.db") as store:
                results += measure(store, "SQLite", options.letters, 1)
        for result in results:
            show(result)
    finally:
        CHILDREN.close()
    print(f"\nwritten to {write(results, machine, options.results)}")


if __name__ == "__main__":
    main()
