"""The template gallery of `penstock init`: small projects that validate and pass their own cases as they are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.core.errors import ConfigError

_FOLDER = Path(__file__).with_name("templates")


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """One template: a folder of files that are copied as they are."""

    name: str
    summary: str

    @property
    def files(self) -> dict[str, str]:
        """Text by relative path, the pipeline file first."""
        folder = _FOLDER / self.name
        paths = sorted(p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
        paths.sort(key=lambda p: p.name != "pipeline.yaml")
        return {str(p.relative_to(folder)): p.read_text() for p in paths}


TEMPLATES = {
    t.name: t
    for t in (
        Template(name="webhook", summary="post events that match an expression to an HTTP address"),
        Template(name="kafka-to-kafka", summary="reshape events and produce them to another topic"),
        Template(name="python", summary="call a Python function with every event"),
        Template(name="command", summary="start a program for every event, the event on its standard input"),
    )
}


def template(name: str) -> Template:
    try:
        return TEMPLATES[name]
    except KeyError:
        raise ConfigError("no such template", received=name, allowed=list(TEMPLATES)) from None


def write_template(name: str, folder: Path) -> list[Path]:
    """Copy a template into `folder`; nothing that exists is touched."""
    files = template(name).files
    taken = [path for path in files if (folder / path).exists()]
    if taken:
        raise ConfigError(
            f"{folder} already has {', '.join(taken)}",
            received=str(folder),
            hint="name another folder; init never overwrites",
        )
    written = []
    for path, text in files.items():
        target = folder / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        except OSError as error:
            raise ConfigError(f"cannot write {target}: {error.strerror}", received=str(folder)) from error
        written.append(target)
    return written
