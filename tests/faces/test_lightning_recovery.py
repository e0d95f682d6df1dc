"""`penstock import lightning-recovery`: what it says, and what it ends with."""

from __future__ import annotations

import json
from pathlib import Path

from tests.faces.cli import penstock
from tests.support.desk import Desk

OLD = "0199d3a0-0000-7000-8000-000000000000"


def test_files_are_taken_in_and_what_is_wrong_with_others_is_said(tmp_path: Path) -> None:
    desk = Desk(f"sqlite:///{tmp_path / 'penstock.db'}")
    folder = tmp_path / "base" / "workflow"
    folder.mkdir(parents=True)
    for offset, data in enumerate(['{"a": 1}', "[1]"]):
        metadata = {"topic": "lab", "partition": 0, "offset": offset, "key": "", "ts": 5, "headers": []}
        (folder / f"{OLD}_lab_0_{offset}.json").write_text(json.dumps({"data": data, "metadata": metadata}))
    (folder / f"{OLD}_lab_0_2.json").write_text("{")
    command = ("import", "lightning-recovery", tmp_path / "base", "--map", f"{OLD}={desk.trigger}")
    env = {"PENSTOCK_HOME": str(tmp_path)}

    tried = penstock(*command, "--dry-run", "--json", **env)
    assert (tried.code, tried.data["outcomes"]) == (1, {"ok": 1, "invalid_data": 1, "malformed": 1})
    assert desk.count("work_orders") == 0
    done = penstock(*command, **env)
    assert done.code == 1
    assert "1 invalid_data, 1 malformed, 1 ok" in done.out
    assert "lab_0_2.json: malformed: it is not JSON" in done.out
    assert sorted(path.suffix for path in folder.iterdir()) == [".json", ".json", ".recovered"]
    assert desk.count("work_orders") == 1
    desk.close()

    assert penstock("import", "lightning-recovery", tmp_path / "missing", **env).code == 2
    wrong = penstock("import", "lightning-recovery", tmp_path, "--map", "x", **env)
    assert (wrong.code, "OLD=NEW" in wrong.err) == (2, True)
