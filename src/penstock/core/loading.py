"""Finds the object behind an import path (`package.module:Name`) or a file path (`./file.py:Name`)."""

from __future__ import annotations

import difflib
import functools
import hashlib
import importlib
import importlib.util
import inspect
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock.core.errors import PluginError

_lock = threading.RLock()
_files: dict[Path, tuple[tuple[int, int], ModuleType]] = {}
_folders: set[Path] = set()


def load_object(path: str, folder: str | None = None) -> object:
    """The object that `path` names; modules and files are looked up in `folder`, then in the working directory, too."""
    place, names = _split(path)
    with _lock:
        for extra in (folder, str(Path.cwd())):
            make_importable(extra)
        module = _load_file(path, place, folder) if place.endswith(".py") else _load_module(path, place, folder)
    return _attribute(path, module, names)


def load_installed(path: str) -> object:
    """The object that an import path of an installed package names; no folder is made importable for it."""
    place, names = _split(path)
    with _lock:
        return _attribute(path, _load_module(path, place, None), names)


def bind(name: str, function: object, config: dict[str, Any]) -> Callable[[Any], Any]:
    """`function` as a call with the event alone."""
    if isinstance(function, type):
        raise PluginError(f"`{name}` is a class, and neither a function nor a plug-in", received=name)
    if not callable(function):
        raise PluginError(f"`{name}` is a {type(function).__name__}, not a function", received=name)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # some functions of C modules tell nothing
        return function
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    if (not positional and not takes_any) or len(required) > 2 or any(p.kind is p.KEYWORD_ONLY for p in required):
        shown = inspect.signature(function)
        raise PluginError(
            f"`{name}` cannot be called with an event: its signature is {shown}",
            received=name,
            allowed=["f(event)", "f(event, config)"],
        )
    second = positional[1] if len(positional) > 1 else None
    if second is None or (second not in required and second.name != "config"):
        return function
    if second.kind is second.POSITIONAL_ONLY:
        return _second_by_position(function, config)
    return functools.partial(function, **{second.name: config})


def _second_by_position(function: Callable[..., Any], config: dict[str, Any]) -> Callable[[Any], Any]:
    if inspect.iscoroutinefunction(function):

        async def call_later(event: Any) -> Any:
            return await function(event, config)

        return call_later
    return lambda event: function(event, config)


def did_you_mean(word: str, known: list[str]) -> str:
    """A question that ends in the nearest known word, or nothing."""
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"did you mean `{near[0]}`?" if near else ""


def _split(path: str) -> tuple[str, list[str]]:
    place, colon, names = path.rpartition(":")
    if not colon:
        if path.endswith(".py"):
            raise PluginError(f"`{path}` names a file, not an object in it", received=path, hint=f"write {path}:Name")
        place, _, names = path.rpartition(".")
    if not place or not all(part.isidentifier() for part in names.split(".")):
        raise PluginError(
            f"`{path}` is not an import path",
            received=path,
            allowed=["package.module:Name", "package.module.Name", "./file.py:Name"],
        )
    return place, names.split(".")


def make_importable(folder: str | None) -> None:
    """Appended, never put first: a file of the user's must not hide an installed package."""
    if folder is None:
        return
    place = Path(folder).resolve()
    _folders.add(place)
    if str(place) not in sys.path:
        sys.path.append(str(place))


def _load_module(path: str, name: str, folder: str | None) -> ModuleType:
    if name not in sys.modules:
        importlib.invalidate_caches()  # the user may have written the file a moment ago
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise _no_module(path, error.name, folder) from error
        raise _broken(path, name, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(path, name, error) from error
    return _own_module(module, name, folder)


def _own_module(module: ModuleType, name: str, folder: str | None) -> ModuleType:
    """Two folders may each hold an `actions.py`; each pipeline gets the one beside its own file."""
    if folder is None or module.__file__ is None:
        return module
    here = Path(folder).resolve()
    beside = here / f"{name}.py"
    found = Path(module.__file__).resolve()
    if beside != found and beside.is_file() and found.parent in _folders:
        return _execute(f"{name}:", beside)
    return module


def _load_file(path: str, place: str, folder: str | None) -> ModuleType:
    candidates = [Path(place)] if Path(place).is_absolute() else [Path(base) / place for base in (folder, ".") if base]
    for candidate in candidates:
        if candidate.is_file():
            file = candidate.resolve()
            make_importable(str(file.parent))
            return _execute(path, file)
    looked = [str(candidate.absolute()) for candidate in candidates]
    raise PluginError(f"`{path}`: there is no such file; looked at {', '.join(looked)}", received=path)


def _execute(path: str, file: Path) -> ModuleType:
    """A file changed since it was loaded is loaded again: workers outlive the pipelines they run."""
    stat = file.stat()
    stamp = (stat.st_mtime_ns, stat.st_size)
    known = _files.get(file)
    if known and known[0] == stamp:
        return known[1]
    name = f"penstock_file_{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise PluginError(f"`{path}`: {file.name} is not a Python file", received=path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _broken(path, file.name, error) from error
    _files[file] = (stamp, module)
    return module


def _attribute(path: str, module: ModuleType, names: list[str]) -> object:
    try:
        return functools.reduce(getattr, names, module)
    except AttributeError as error:
        known = [name for name in vars(module) if not name.startswith("_")]
        where = Path(module.__file__).name if module.__file__ else module.__name__
        hint = did_you_mean(names[-1], known) or f"it has: {', '.join(sorted(known)[:20]) or 'nothing'}"
        raise PluginError(f"`{path}`: {where} has no `{'.'.join(names)}`", received=path, hint=hint) from error


def _no_module(path: str, missing: str, folder: str | None) -> PluginError:
    looked = [str(place) for place in (folder, Path.cwd()) if place]
    beside = [file.stem for place in looked for file in Path(place).glob("*.py")]
    places = " and ".join(dict.fromkeys(looked))
    return PluginError(
        f"`{path}`: there is no module `{missing}`; looked at the installed packages, {places}",
        received=path,
        hint=did_you_mean(missing, beside) or "install its package, or write the path of a file: ./file.py:Name",
    )


def _broken(path: str, name: str, error: BaseException) -> PluginError:
    hint = getattr(error, "hint", None)
    if hint is None and isinstance(error, ModuleNotFoundError) and error.name:
        hint = f"install `{error.name}`"
    return PluginError(f"`{path}`: importing {name} failed: {type(error).__name__}: {error}", received=path, hint=hint)
