"""How states, wishes, specs and the history of pipelines are kept."""

from __future__ import annotations

from dataclasses import replace

from penstock.store import StateRow, Store


class PipelinesBehaviour:
    def test_each_instance_has_one_state_per_pipeline(self, store: Store) -> None:
        store.pipelines.put_state("orders", "one", "starting")
        store.pipelines.put_state("orders", "one", "waiting", "broker away", events=5, failures=1, p50=1.5, p99=9.0)
        store.pipelines.put_states([StateRow(pipeline=name, instance="two", state="idle") for name in ("a", "orders")])
        states = [replace(state, updated_at=0) for state in store.pipelines.states()]
        assert states == [
            StateRow(pipeline="a", instance="two", state="idle"),
            StateRow(
                pipeline="orders",
                instance="one",
                state="waiting",
                reason="broker away",
                events=5,
                failures=1,
                p50_ms=1.5,
                p99_ms=9.0,
            ),
            StateRow(pipeline="orders", instance="two", state="idle"),
        ]
        assert all(state.updated_at > 1_700_000_000_000 for state in store.pipelines.states())

    def test_an_instance_is_forgotten(self, store: Store) -> None:
        store.pipelines.put_state("orders", "one", "running")
        store.pipelines.put_state("orders", "two", "running")
        store.pipelines.forget_instance("one")
        assert [state.instance for state in store.pipelines.states()] == ["two"]

    def test_a_pipeline_that_an_instance_has_no_more_is_forgotten(self, store: Store) -> None:
        for instance in ("one", "two"):
            store.pipelines.put_states(
                [StateRow(pipeline=name, instance=instance, state="idle") for name in ("a", "b", "c")]
            )
        store.pipelines.forget_states("one", ["a", "b", "never"])
        kept = [(state.instance, state.pipeline) for state in store.pipelines.states()]
        assert sorted(kept) == [("one", "c"), ("two", "a"), ("two", "b"), ("two", "c")]

    def test_no_states_at_all_are_fine(self, store: Store) -> None:
        store.pipelines.put_states([])
        assert store.pipelines.states() == []

    def test_the_spec_last_put_to_use_is_found(self, store: Store) -> None:
        assert store.pipelines.last_spec("orders") is None
        store.pipelines.save_spec("other", "o1", "{}")
        for version in ("v1", "v2", "v1"):
            store.pipelines.save_spec("orders", version, f'{{"version": "{version}"}}')
            found = store.pipelines.last_spec("orders")
            assert found is not None
            assert (found.version, found.spec) == (version, f'{{"version": "{version}"}}')

    def test_history_is_newest_first(self, store: Store) -> None:
        store.pipelines.note("orders", "one", "started", "started")
        store.pipelines.note("orders", None, "gap", "\0lost 5", {"from": 1, "to": 6, "topics": ["ü"]})
        store.pipelines.note("other", "one", "started", "started")
        newest, oldest = store.pipelines.history("orders")
        assert (newest.kind, newest.instance, newest.text) == ("gap", None, "\\x00lost 5")
        assert newest.data == {"from": 1, "to": 6, "topics": ["ü"]}
        assert (oldest.kind, oldest.data) == ("started", {})
        assert store.pipelines.history("orders", limit=1) == [newest]

    def test_notes_of_some_kinds_and_pipelines_are_found_page_by_page(self, store: Store) -> None:
        for pipeline, kind in (("a", "told"), ("a", "started"), ("b", "told"), ("c", "told"), ("a", "told")):
            store.pipelines.note(pipeline, None, kind, "")
        first = store.pipelines.notes(["a", "b"], ["told", "missed"], limit=2)
        assert [row.pipeline for row in first] == ["a", "b"]
        rest = store.pipelines.notes(["a", "b"], ["told", "missed"], limit=2, before=first[-1].id)
        assert [(row.pipeline, row.kind) for row in rest] == [("a", "told")]
        assert store.pipelines.notes([], ["told"], limit=2) == []
