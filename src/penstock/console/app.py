"""Mounts the console on the HTTP server's app."""

from __future__ import annotations

import importlib
import logging
import pkgutil
from pathlib import Path
from typing import Final

from fastapi import FastAPI
from nicegui import app as nicegui_app
from nicegui import core, ui
from starlette.middleware.gzip import GZipMiddleware

from penstock import __version__
from penstock.console import pages as all_pages
from penstock.console.csp import ContentPolicy
from penstock.console.data import Data
from penstock.console.frame import pages
from penstock.console.missing import answer_the_rest

_STATIC: Final = Path(__file__).parent / "static"
_HEAD: Final = (
    f'<link rel="stylesheet" href="/_console/console.css?{__version__}">'
    f'<script defer src="/_console/console.js?{__version__}"></script>'
)
_OTHERS: Final = ("/api/", "/metrics", "/health/")
"""Paths that have headers of their own."""


def mount(app: FastAPI, data: Data) -> None:
    """Serve the console under `/`, beside the routes that the app has. Once per process: NiceGUI keeps its pages in
    module-wide objects."""
    # It tells of every client that goes away in the middle of something.
    logging.getLogger("nicegui").setLevel(logging.ERROR)
    pages.serve(data)
    for module in pkgutil.iter_modules(all_pages.__path__):
        importlib.import_module(f"{all_pages.__name__}.{module.name}")
    nicegui_app.add_static_files("/_console", str(_STATIC), max_cache_age=3600)
    ui.add_head_html(_HEAD, shared=True)
    nicegui_app.on_startup(data.start)
    nicegui_app.on_startup(answer_the_rest)  # by then NiceGUI has all of its own routes
    nicegui_app.on_shutdown(data.close)
    ui.run_with(
        app,
        title="Penstock",
        favicon=_STATIC / "mark.svg",
        dark=None,
        language="en-US",
        tailwind=False,
        binding_refresh_interval=None,
        show_welcome_message=False,
        gzip_middleware_factory=None,
        reconnect_timeout=10.0,
    )
    # Sockets only: polling would let pages of other origins begin sessions of the console.
    nicegui_app.config.socket_io_js_transports = ["websocket"]
    core.sio.eio.transports = ["websocket"]
    core.sio.eio.cors_allowed_origins = []
    app.add_middleware(ContentPolicy, not_under=_OTHERS)
    # The default level takes three times as long, on the loop that all pages share, for a twentieth less.
    app.add_middleware(GZipMiddleware, minimum_size=1000, compresslevel=4)
