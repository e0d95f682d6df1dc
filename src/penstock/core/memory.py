"""Memory of long-lived processes with hundreds of threads: what Python looks at, and what the C library takes, where it
lets us say so."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import threading
from typing import Final

_STACK: Final = 8 * 1024 * 1024
"""Of threads that run Python code: the usual size."""
_CLIENT_STACK: Final = 1024 * 1024
_M_ARENA_MAX: Final = -8
_ARENAS: Final = 2

# Only the GNU library has these; elsewhere threads and memory are what they are.
_ELSEWHERE: Final = (AttributeError, OSError)


def few_arenas() -> None:
    """Let all threads of this process share their free memory; by default each core has eight stores of it, which every
    thread of a Kafka client adds to."""
    with contextlib.suppress(*_ELSEWHERE):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)


def small_client_stacks() -> None:
    """Let threads that are not Python's have 1 MB each instead of 8: a limit of the process's memory counts their
    stacks, though hardly any of it is used, and the Kafka client ends a process that can make no thread."""
    threading.stack_size(_STACK)
    with contextlib.suppress(*_ELSEWHERE):
        libc, attributes = ctypes.CDLL(None), ctypes.create_string_buffer(256)
        libc.pthread_attr_init(attributes)
        libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(_CLIENT_STACK))
        libc.pthread_setattr_default_np(attributes)


def collect_rarely() -> None:
    """Let Python look for cycles after fifty thousand new objects instead of seven hundred, and never again at what is
    there now: modules and their like, which it would walk through for a tenth of a second each time. What comes and
    goes with batches and letters is freed without it."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def give_back() -> None:
    """Return memory that is free now to the system."""
    with contextlib.suppress(*_ELSEWHERE):
        ctypes.CDLL(None).malloc_trim(0)
