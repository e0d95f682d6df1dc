"""The list of routes for the docs: `python -m penstock.api.reference` writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from fastapi import FastAPI

from penstock.api.app import PREFIX, all_routes, description

PAGE: Final = "docs/reference/api.md"
_HEAD: Final = (
    "# API\n\nAll routes under `/api/v1`, made from the code by `python -m penstock.api.reference`. A running instance"
    " describes them in full, with schemas and examples, at `/api/v1/openapi.json`. How to log in, page, change and"
    " follow is in [Use the API](../guides/api.md).\n"
)
_COLUMNS: Final = "| method | path | what it does |\n| --- | --- | --- |"


def reference() -> str:
    """The page."""
    app = FastAPI()
    app.include_router(all_routes())
    rows: dict[str, list[str]] = {}
    for path, item in description(app)["paths"].items():
        for method, operation in item.items():
            row = f"| `{method.upper()}` | `{path.removeprefix(PREFIX)}` | {operation['summary']} |"
            rows.setdefault(operation["tags"][0], []).append(row)
    parts = ["\n".join([f"## {tag.capitalize()}\n", _COLUMNS, *rows[tag]]) + "\n" for tag in sorted(rows)]
    return "\n".join([_HEAD, *parts])


if __name__ == "__main__":
    Path(PAGE).write_text(reference(), encoding="utf-8")
