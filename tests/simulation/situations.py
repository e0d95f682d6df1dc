"""The register of rare situations: states in which version 0.1 had its mistakes. A campaign that has not reached every
one of them proves too little, and fails.

They are counted by the world, from what it can see; the driver's code knows nothing of them.
"""

from __future__ import annotations

from collections import Counter

SITUATIONS: dict[str, str] = {
    "commit refused after settle": "a commit is refused while dead letters of its range are stored already",
    "commit with unknown result": "the broker does not answer a commit; it may have taken it",
    "revoke while a retry is pending": "a partition is revoked while one of its events waits for its next attempt",
    "deferral pending at revoke": "a partition is revoked while an event of it waits for its acknowledgement",
    "death after settle before commit": "an instance dies between storing dead letters and committing",
    "a frozen owner's late outcome": "an outcome reaches its instance after the partition went to another one",
    "an outcome twice": "a worker returns the same outcome a second time",
    "cursor ahead of the group": "a target's cursor lies above the position that the driver planned with",
    "cursor below the log's start": "a target's cursor points to records that are no longer in the log",
    "two detached units": "two units of one process act beyond the end of their window",
    "drain time-out": "an instance kills a worker because a revoked unit did not end in time",
    "more than 64 units in a lane": "one window carries more than 64 units",
    "store away while a unit fails": "a unit returns failures while the store does not answer",
    "reload while the old runner drains": "a pipeline is replaced while units of its former revision are in flight",
    "topic re-created with pending retries": "a topic is made anew while events of it wait for a retry",
    "partitions added": "a topic of a running pipeline gets a partition",
    "gap": "records are deleted before they were read",
    "first start of two instances together": "two instances look for the start position of one group at the same time",
    "stateless after an outage": "a stateless pipeline goes on after the brokers were away",
    "killer dead-lettered": "an event that kills its worker is run alone and becomes a dead letter",
    "hang given up": "an event that hangs is given up and becomes a dead letter",
    "worker died at work": "a worker process dies while it acts",
    "session expired": "the group gives an instance's partitions away because it was silent",
    "wrong sum refused": "an outcome that does not add up reaches the driver",
}


class Situations:
    """Counts what one schedule, or a campaign, has reached."""

    def __init__(self) -> None:
        self.reached: Counter[str] = Counter()

    def reach(self, name: str) -> None:
        assert name in SITUATIONS, f"not in the register: {name}"
        self.reached[name] += 1

    def missing(self) -> list[str]:
        return [name for name in SITUATIONS if not self.reached[name]]
