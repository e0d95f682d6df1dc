"""How threads and processes share a store."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

from penstock.store import MirrorRow, Store
from tests.behaviour.store.letters import failed_at, letter

ROUNDS = 20


def write_rounds(store: Store, writer: int) -> None:
    """What an instance writes, over and over: some rows of its own, some that all writers touch."""
    for turn in range(ROUNDS):
        store.dead_letters.record(
            [letter(turn, partition=writer + 1), letter(0, attempts=turn + 1, **failed_at(writer * ROUNDS + turn))]
        )
        store.pipelines.put_state("orders", f"instance-{writer}", "running", events=turn + 1)
        store.offsets.mirror([MirrorRow(group="g", topic="t", topic_id="i", partition=p, offset=turn) for p in (1, 0)])
        assert store.dead_letters.count() > 0


def write_rounds_in_process(url: str, writer: int) -> None:
    with Store.open(url) as store:
        write_rounds(store, writer)


def check_rounds(store: Store, writers: int) -> None:
    assert store.dead_letters.count() == writers * ROUNDS + 1
    assert [state.events for state in store.pipelines.states()] == [ROUNDS] * writers
    assert {row.offset for row in store.offsets.mirrored("g").values()} == {ROUNDS - 1}
    [shared] = [row for row in store.dead_letters.list(limit=10_000) if row.partition == 0]
    found = store.dead_letters.get(shared.id)
    assert found is not None
    assert len(found.history) == writers * ROUNDS


class SharingBehaviour:
    def test_threads_share_a_store(self, store: Store) -> None:
        with ThreadPoolExecutor(8) as pool:
            for done in [pool.submit(write_rounds, store, writer) for writer in range(8)]:
                done.result()
        check_rounds(store, 8)

    def test_processes_share_a_store_that_the_first_of_them_makes(self, url: str) -> None:
        with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
            for done in [pool.submit(write_rounds_in_process, url, writer) for writer in range(2)]:
                done.result()
        with Store.open(url) as store:
            check_rounds(store, 2)
