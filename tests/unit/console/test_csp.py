"""The nonce is in NiceGUI's own inline scripts, and nowhere else."""

from __future__ import annotations

import re
from pathlib import Path

import nicegui

from penstock.console import csp

_TEMPLATE = (Path(nicegui.__file__).parent / "templates" / "index.html").read_bytes()
_INLINE = re.compile(rb"<script(?![^>]*\bsrc=)[^>]*>")


def _page() -> bytes:
    """As it is served: without the parts that are switched off."""
    return re.sub(rb"{% if unocss %}\n    <script.*?{% endif %}", b"", _TEMPLATE, flags=re.DOTALL)


def test_every_inline_script_of_nicegui_has_the_nonce() -> None:
    marked = csp._with_nonce(_page(), "canary")
    inline = _INLINE.findall(marked)
    assert len(inline) == 4
    assert all(b'nonce="canary"' in tag for tag in inline), "NiceGUI has changed: see _FIRST and _LAST"


def test_markup_that_was_not_escaped_gets_no_nonce() -> None:
    copies = [b"<script>hack()</script>", *csp._FIRST, csp._LAST]
    for injected in copies:
        page = _page().replace(b"{{ body_html | safe }}", b"<p>" + injected + b"hack()</script></p>")
        assert injected in page
        marked = csp._with_nonce(page, "canary")
        assert marked.count(b'nonce="canary"') == 4
        assert b"<p>" + injected in marked, "as it was"
