"""Dotted paths into maps: a value with nothing but, or all but, some of its fields."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

Tree = dict[str, "Tree | None"]
"""Fields by name, each with the fields below it; None: the field as a whole."""


def tree_of(paths: Iterable[str]) -> Tree:
    """Dotted paths as one tree; a path above another one wins."""
    root: Tree = {}
    for path in sorted(paths, key=lambda path: path.count(".")):
        *above, last = path.split(".")
        node: Tree | None = root
        for part in above:
            node = cast("Tree", node).setdefault(part, {})
            if node is None:
                break
        if node is not None:
            node[last] = None
    return root


def without(value: dict[str, Any], tree: Tree) -> dict[str, Any]:
    """The value without the fields of the tree."""
    kept: dict[str, Any] = {}
    for name, inner in value.items():
        if name not in tree:
            kept[name] = inner
        elif (below := tree[name]) is not None:
            kept[name] = without(inner, below) if isinstance(inner, dict) else inner
    return kept


def only(value: dict[str, Any], tree: Tree) -> dict[str, Any]:
    """The value with the fields of the tree and no others."""
    kept: dict[str, Any] = {}
    for name, below in tree.items():
        if name not in value:
            continue
        inner = value[name]
        if below is None:
            kept[name] = inner
        elif isinstance(inner, dict):
            kept[name] = only(inner, below)
    return kept
