"""Finding plug-ins: names, import paths, file paths, and what is said when there is none."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.act.registry import action_class, actions
from penstock.core.errors import ConfigError, PluginError, Unavailable
from penstock.core.plugin import PipelineContext
from penstock.filter.registry import filters
from penstock.transform.registry import transforms

ACTION = """
from penstock import Action

class Base(Action):
    @classmethod
    def create(cls, config, ctx):
        return cls()

class Good(Base):
    def close(self):
        pass

    class Inner(Base):
        def close(self):
            pass

class NoClose(Base):
    def act(self, event):
        pass

class NoCreate(Action):
    def close(self):
        pass

class Duck:
    @classmethod
    def create(cls, config, ctx):
        return cls()
    def act(self, event):
        pass
    def close(self):
        pass

class Nothing(Good):
    @classmethod
    def create(cls, config, ctx):
        return None

class Raises(Good):
    @classmethod
    def create(cls, config, ctx):
        raise KeyError("server")

class Away(Good):
    @classmethod
    def create(cls, config, ctx):
        from penstock.core.errors import Unavailable
        raise Unavailable("the target is away")

def function(event):
    pass

number = 3
"""


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    (tmp_path / f"mine_{request.node.name.split('[')[0]}.py").write_text(ACTION)
    (tmp_path / "x.py").write_text(ACTION)
    return tmp_path


def module_of(folder: Path) -> str:
    return next(folder.glob("mine_*.py")).stem


def test_built_in_names_resolve_and_are_listed() -> None:
    for registry in (actions, filters, transforms):
        infos = {info.name: info for info in registry.names()}
        assert set(infos) >= {name for name in registry.builtin if not name.startswith("__")}
        assert all(info.disabled is None for name, info in infos.items() if name in registry.builtin), infos
        assert all(info.kind == registry.kind for info in infos.values())


def test_built_in_configuration_models_document_every_field() -> None:
    for registry in (actions, filters, transforms):
        for name in registry.builtin:
            model = vars(registry.resolve(name)).get("config_model")
            assert model is not None, name
            undocumented = [field for field, info in model.model_fields.items() if not info.description]
            assert undocumented == [], name


def test_import_paths_in_all_forms(folder: Path) -> None:
    module = module_of(folder)
    for written, found in (
        (f"{module}:Good", "Good"),
        (f"{module}.Good", "Good"),
        (f"{module}:Good.Inner", "Good.Inner"),
        ("./x.py:Good", "Good"),
        ("x.py:Good.Inner", "Good.Inner"),
        (f"{folder}/x.py:Good", "Good"),
    ):
        assert actions.resolve(written, str(folder)).__qualname__ == found


def test_a_module_in_the_working_directory_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert actions.resolve(f"{module_of(folder)}:Good", None).__name__ == "Good"


def test_two_folders_may_hold_modules_of_one_name(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same_name_actions.py").write_text(ACTION + f"\nGood.home = {name!r}\n")
    homes = [actions.resolve("same_name_actions:Good", str(tmp_path / name)) for name in ("a", "b", "a")]
    assert [cls.home for cls in homes] == ["a", "b", "a"]  # type: ignore[attr-defined]  # set by the files


def test_a_file_that_changed_is_loaded_again(folder: Path) -> None:
    first = actions.resolve("./x.py:Good", str(folder))
    assert actions.resolve("./x.py:Good", str(folder)) is first
    (folder / "x.py").write_text(ACTION + "\nGood.version = 2\n")
    assert actions.resolve("./x.py:Good", str(folder)).version == 2  # type: ignore[attr-defined]  # set by the file


def test_a_file_may_import_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_act.py").write_text("VALUE = 7\n")
    (tmp_path / "act.py").write_text(ACTION + "\nfrom neighbour_of_act import VALUE\nGood.value = VALUE\n")
    assert actions.resolve("act.py:Good", str(tmp_path)).value == 7  # type: ignore[attr-defined]  # set by the file


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("helo_world", "did you mean `hello_world`?"),
        ("nonsense", "known are:"),
        ("executor", "penstock[datahub]"),
        ("x.py:Goood", "did you mean `Good`?"),
        ("x.py", "write x.py:Name"),
        ("nowhere.py:Good", "no such file; looked at"),
        ("no_such_module_at_all:Good", "no module `no_such_module_at_all`"),
        ("os.path:join", "is a function, not a class of kind action"),
        ("x.py:function", "`callable: x.py:function`"),
        ("x.py:number", "is a int, not a class"),
        ("x.py:NoClose", "NoClose does not define `close`"),
        ("x.py:NoCreate", "NoCreate does not define `create`"),
        ("x.py:Duck", "Duck does not extend Action"),
        ("penstock.filter.match:Match", "is of kind filter, not action"),
        ("x.py:", "is not an import path"),
    ],
)
def test_what_is_said_of_a_type_that_cannot_be_used(folder: Path, written: str, said: str) -> None:
    with pytest.raises(PluginError) as caught:
        actions.resolve(written, str(folder))
    assert said in str(caught.value)
    assert caught.value.received == written


def test_an_import_that_fails_inside_names_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import package_that_is_not_there\n")
    with pytest.raises(PluginError, match=r"importing broken\.py failed: ModuleNotFoundError") as caught:
        actions.resolve("broken.py:Good", str(tmp_path))
    assert caught.value.hint == "install `package_that_is_not_there`"
    (tmp_path / "leaves.py").write_text("raise SystemExit(3)\n")
    with pytest.raises(PluginError, match="SystemExit: 3"):
        actions.resolve("leaves.py:Good", str(tmp_path))


def test_create_names_the_plug_in_and_lets_outages_through(folder: Path) -> None:
    ctx = PipelineContext("p", folder=str(folder))
    with pytest.raises(PluginError, match=r"`x\.py:Raises` could not be created: KeyError: 'server'"):
        actions.create("x.py:Raises", {}, ctx)
    with pytest.raises(PluginError, match="its `create` returned None"):
        actions.create("x.py:Nothing", None, ctx)
    with pytest.raises(Unavailable):
        actions.create("x.py:Away", {}, ctx)
    assert type(actions.create("x.py:Good", None, ctx)).__name__ == "Good"


def install(site: Path, name: str, entry_points: str) -> None:
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)


def test_entry_points_are_found_and_broken_ones_are_disabled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "entry_pack.py").write_text(ACTION)
    install(
        tmp_path,
        "entry-pack",
        "[penstock.actions]\nshout = entry_pack:Good\nhello_world = entry_pack:Good\n"
        "[datahub_actions.action.plugins]\nbroken = entry_pack_missing:Good [extra]\n",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    assert actions.resolve("shout").__name__ == "Good"
    assert actions.resolve("hello_world").__name__ == "HelloWorld", "a built-in name is not taken over"
    infos = {info.name: info for info in actions.names()}
    assert (infos["shout"].origin, infos["shout"].disabled) == ("entry-pack", None)
    assert infos["hello_world"].origin == "built in"
    assert "entry_pack_missing" in str(infos["broken"].disabled)
    with pytest.raises(PluginError, match="the action `broken` is disabled"):
        actions.resolve("broken")


def test_one_name_from_two_distributions_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "one-pack", "[penstock.filters]\nboth = one_pack:A\n")
    install(tmp_path, "two-pack", "[penstock.filters]\nboth = two_pack:B\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    with pytest.raises(PluginError, match="one_pack:A and two_pack:B"):
        filters.resolve("both")


def test_a_class_of_datahubs_own_contract_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "datahub_actions" / "action").mkdir(parents=True)
    (tmp_path / "datahub_actions" / "__init__.py").touch()
    (tmp_path / "datahub_actions" / "action" / "__init__.py").touch()
    (tmp_path / "datahub_actions" / "action" / "action.py").write_text(
        "from abc import ABC, abstractmethod\n"
        "class Action(ABC):\n"
        "    @classmethod\n    @abstractmethod\n    def create(cls, config_dict, ctx): ...\n"
        "    def act(self, event): ...\n"
        "    @abstractmethod\n    def close(self): ...\n"
    )
    (tmp_path / "theirs.py").write_text(
        "from datahub_actions.action.action import Action\n"
        "class Theirs(Action):\n"
        "    @classmethod\n    def create(cls, config_dict, ctx):\n        return cls()\n"
        "    def close(self): ...\n"
    )
    script = (
        "from penstock.act.registry import actions\n"
        f"print(actions.resolve('theirs.py:Theirs', {str(tmp_path)!r}).__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout.strip() == "Theirs", done.stderr


def test_the_class_behind_a_python_action(folder: Path) -> None:
    found: Any = action_class("python", {"callable": "x.py:Good"}, str(folder))
    assert (found.__name__, found.parallel_safe) == ("Good", False)
    found = action_class("python", {"callable": "x.py:function"}, str(folder))
    assert (found.__name__, found.parallel_safe) == ("Python", True)


def test_configuration_errors_name_key_value_and_what_is_allowed() -> None:
    ctx = PipelineContext("p")
    with pytest.raises(ConfigError) as caught:
        transforms.create("map", {"fields": {"a": "event.x"}, "mode": "mrge"}, ctx)
    assert "`mode`" in str(caught.value)
    assert caught.value.received == "mrge"
    assert caught.value.allowed == "'replace' or 'merge'"
    with pytest.raises(ConfigError, match="did you mean `to_upper`") as caught:
        actions.create("hello_world", {"to_uper": True}, ctx)
    assert caught.value.allowed == ["to_upper"]
    with pytest.raises(ConfigError, match="`path` is required"):
        actions.create("file", {}, ctx)


def test_i08_a_configuration_error_shows_no_secret() -> None:
    with pytest.raises(ConfigError) as caught:
        actions.create(
            "webhook", {"url": "https://x.org", "headers": {"authorization": ["hunter2"]}}, PipelineContext("p")
        )
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in str(caught.value.as_dict())
    assert caught.value.__cause__ is None
