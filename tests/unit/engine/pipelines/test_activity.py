"""The idle timeout and the polling interval of idle pipelines, by how many pipelines there are."""

from __future__ import annotations

from penstock.engine.pipelines.activity import Activity, IdlePolicy


def crowd(policy: IdlePolicy, count: int) -> list[Activity]:
    made = [Activity(policy) for _ in range(count)]
    for activity in made:
        policy.enter(activity)
        activity.become("shared")
    return made


def test_few_pipelines_stay_active_for_a_minute_and_hundreds_for_seconds() -> None:
    policy = IdlePolicy()
    few = crowd(policy, 20)
    assert (policy.idle_after, policy.poll_every) == (60.0, 1.0)
    many = crowd(policy, 300)
    assert policy.idle_after == 6.0
    assert policy.poll_every == 2.0
    for activity in many:
        activity.become("idle")
    assert (policy.idle_after, policy.poll_every) == (60.0, 2.0), "idle ones still poll less often"
    for activity in [*few, *many]:
        policy.leave(activity)
    assert (policy.idle_after, policy.poll_every) == (60.0, 1.0)


def test_no_crowd_is_too_large() -> None:
    policy = IdlePolicy()
    crowd(policy, 5_000)
    assert (policy.idle_after, policy.poll_every) == (5.0, 2.0)
