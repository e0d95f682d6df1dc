"""`penstock import lightning-recovery`: messages of alternate storage, Lightning's files or ours."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.exits import Exit
from penstock.cli.terminal import Terminal
from penstock.core.errors import ConfigError


def lightning_recovery(
    terminal: Terminal,
    paths: Annotated[
        list[Path], typer.Argument(help="Base folders of alternate storage, folders of workflows, or files.")
    ],
    renamed: Annotated[
        list[str] | None,
        typer.Option("--map", help="OLD=NEW: a trigger whose id has changed; may be repeated."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")] = False,
) -> Exit | None:
    """Take in messages that were kept as files because they could not be stored. Files that were taken in, now or
    before, get the ending `.recovered`; a file that cannot be read is reported and stops none of the others."""
    from penstock.config.settings import Settings
    from penstock.service.audit import by_command
    from penstock.service.lightning_recovery import asked_topic_ids, recover
    from penstock.service.opening import opened_for_writing
    from penstock.service.secrets import SecretBox

    for path in paths:
        if not path.exists():
            raise ConfigError(f"there is no {path}", received=str(path))
    settings = Settings.load()
    with opened_for_writing(settings) as store:
        box = SecretBox.of(store, settings)
        given = {"paths": [str(path) for path in paths[:100]]}
        written = nullcontext() if dry_run else by_command(store, "import.lightning-recovery", "work-orders", given)
        with written:
            report = recover(
                store,
                settings.store_url,
                paths,
                triggers=_mapping(renamed or []),
                dry_run=dry_run,
                topic_ids=asked_topic_ids(box),
                cipher=box.cipher,
            )
    if terminal.as_json:
        terminal.data(report.as_dict())
    else:
        for each in report.failed:
            terminal.line(f"{each.path}: {each.outcome}: {each.reason}")
        said = report.as_dict()["outcomes"]
        counted = ", ".join(f"{count} {name}" for name, count in sorted(said.items())) or "no files"
        terminal.line(f"{'would be: ' if dry_run else ''}{counted}")
    return Exit.FAILED if report.failed else None


def _mapping(given: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    for old, equals, new in pairs:
        if not (old and equals and new):
            raise ConfigError("--map wants two ids of triggers", received=f"{old}{equals}{new}", allowed="OLD=NEW")
    return {old.strip(): new.strip() for old, _, new in pairs}
