"""The page of every address that no other page has."""

from __future__ import annotations

from nicegui import ui

from penstock.console.frame import Visit, pages
from penstock.console.parts import box, empty, link, title


def answer_the_rest() -> None:
    """To be called when all other pages and files have their routes: these are tried in their order."""

    @pages.page("/{rest:path}", "Not found", "")
    async def missing(visit: Visit) -> None:
        ui.context.client.status_code = 404
        title("There is no such page")
        empty("Nothing is at this address.", "It may have been deleted, or the address was not copied as a whole.")
        with box("head"):
            for name, target in visit.places():
                link(name, target)
