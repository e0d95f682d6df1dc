"""Enabling and disabling a trigger, and the question where to go on when the broker has forgotten where it was."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import ui

from penstock.console.frame import Visit
from penstock.console.parts import asking, box, button, confirm, notify, problem, text
from penstock.core.errors import PenstockError
from penstock.service.operations import triggers as operations
from penstock.service.operations.trigger_models import TriggerItem
from penstock.service.resuming import OffsetsGone

After = Callable[[], Awaitable[None]]


async def switch(visit: Visit, trigger: TriggerItem, after: After) -> None:
    """Turn it on or off, on every instance."""
    if not trigger.enabled:
        await _enable(visit, trigger, after, None)
        return

    async def disable(_: str | None) -> None:
        await visit.tell(f"{trigger.name}: disabled", operations.disable, trigger.id)
        await after()

    say = (
        "It ends on every instance within two seconds. Where it stands is kept by the store; the broker forgets it "
        "after a while."
    )
    confirm(f"Disable {trigger.name}?", say, disable, button_label="Disable").open()


async def _enable(visit: Visit, trigger: TriggerItem, after: After, resume: str | None) -> None:
    try:
        done = await visit.ask(operations.enable, trigger.id, resume=resume)
    except OffsetsGone as gone:
        _ask_where(visit, trigger, after, gone)
        return
    except PenstockError as error:
        notify(str(error), good=False)
        return
    for warning in done.warnings:
        notify(warning, good=False)
    notify(f"{trigger.name}: enabled")
    await after()


def _ask_where(visit: Visit, trigger: TriggerItem, after: After, gone: OffsetsGone) -> None:
    with asking(f"Where does {trigger.name} go on?") as dialog:
        text(gone.message, "note warn")
        choices = gone.standing.choices()
        options = {name: f"{name}: {said}" for name, said in choices.items()}
        chosen = ui.radio(options, value=next(iter(options)))
        time = ui.input("Time (ISO, or epoch milliseconds)").classes("field").props("outlined dense")
        time.bind_visibility_from(chosen, "value", backward=lambda value: value == "TIME")
        with box("stack") as errors:
            pass

        async def go() -> None:
            where = str(time.value or "").strip() if chosen.value == "TIME" else str(chosen.value)
            errors.clear()
            if not where:
                with errors:
                    problem("A time is wanted.")
                return
            dialog.close()
            await _enable(visit, trigger, after, where)

        with box("foot"):
            button("Cancel", dialog.close)
            button("Enable", go, "main-act")
    dialog.open()
