"""The three lists of a job, whose elements belong together by their places."""

from __future__ import annotations

from penstock.config.dialects.wherehows_job import LISTS, Job, Pairing


def read_pairings(job: Job) -> list[Pairing]:
    """Element by element; empty, and the job has failed, where the lists do not fit together."""
    lists = {key: _elements(job, key) for key in LISTS}
    counts = ", ".join(_count(key, elements) for key, elements in lists.items())
    known = {key: elements for key, elements in lists.items() if elements is not None}
    for key in LISTS:
        elements = known.get(key)
        if elements is None:
            job.fail(key, f"required ({counts})")
        elif "" in elements:
            job.fail(key, f"element {elements.index('') + 1} is empty ({counts})")
    if len({len(elements) for elements in known.values()}) > 1:
        _refuse_unequal(job, known, counts)
    if job.failed or len(known) < len(LISTS):
        return []
    pairings = [Pairing(*each) for each in zip(*(known[key] for key in LISTS), strict=True)]
    return _last_of_each(job, pairings)


def _elements(job: Job, key: str) -> list[str] | None:
    written = job.properties.pop(key, None)
    if written is None:
        return None
    elements = [element.strip() for element in written.split(",")]
    if len(elements) > 1 and not elements[-1]:
        job.warn(key, "ends in a comma, behind which nothing stands")
        elements.pop()
    return elements


def _count(key: str, elements: list[str] | None) -> str:
    if elements is None:
        return f"{key} is missing"
    return f"{key} has {len(elements)} element{'' if len(elements) == 1 else 's'}"


def _refuse_unequal(job: Job, lists: dict[str, list[str]], counts: str) -> None:
    place = min(map(len, lists.values()))
    short = next(key for key, elements in lists.items() if len(elements) == place)
    longer = next(key for key, elements in lists.items() if len(elements) > place)
    element = lists[longer][place]
    job.fail(
        short,
        f"the lists are not equally long: {counts}; element {place + 1} of {longer}, {element!r}, has no partner here",
        received=element,
        hint="element by element, a topic belongs to a processor and a table",
    )


def _last_of_each(job: Job, pairings: list[Pairing]) -> list[Pairing]:
    found: dict[str, Pairing] = {}
    for pairing in pairings:
        before = found.pop(pairing.topic, None)
        if before is not None:
            job.warn("kafka.topics", f"{pairing.topic!r} is named twice; its last processor and table are used")
        found[pairing.topic] = pairing
    return list(found.values())
