"""Code of a worker process answers with pickles, by all the ways back that PySpark has: none of them runs here."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import psutil
import pytest

from penstock.engine.spark.context import GarbledOutcome, Spark
from penstock.worker import window
from penstock.worker.protocol import WindowRequest

pytestmark = pytest.mark.spark


def hostile(answered: str, accumulated: str) -> Callable[[Iterable[bytes]], Iterator[bytes]]:
    """A window function that sends itself to the worker by value and leaves a folder behind where it is unpickled."""

    def run_window(requests: Iterable[bytes]) -> Iterator[bytes]:
        import pickle  # noqa: PLC0415 - in the worker

        from pyspark import accumulators  # noqa: PLC0415 - as above

        class Payload:
            def __init__(self, folder: str) -> None:
                self.folder = folder

            def __reduce__(self) -> tuple[object, ...]:
                return os.mkdir, (self.folder,)

        list(requests)
        added = accumulators._deserialize_accumulator(7, 0, accumulators.INT_ACCUMULATOR_PARAM)
        added._value = Payload(accumulated)  # type: ignore[assignment]  # it is the harm
        yield pickle.dumps([Payload(answered)])

    return run_window


def _rpc_request() -> bytes:
    """A request of Spark's protocol (frame, type, id, length of the body) whose body is no authentication."""
    body = b"\x00" * 64
    message = struct.pack(">bqi", 3, 7, len(body)) + body
    return struct.pack(">q", 8 + len(message)) + message


def _answer(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(_rpc_request())
        received = b""
        connection.settimeout(2)
        with contextlib.suppress(TimeoutError, ConnectionError):
            while chunk := connection.recv(65_536):
                received += chunk
    return received


def _check_listeners(pid: int) -> None:
    """M10: no port of the JVM deserialises what somebody sends who has not authenticated."""
    listeners = [c.laddr for c in psutil.Process(pid).net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    assert {address.ip.removeprefix("::ffff:") for address in listeners} == {"127.0.0.1"}
    answers = [_answer(address.port) for address in listeners]
    assert len(answers) == 3, "py4j, which has a token of its own, driver RPC and block manager"
    for answer in answers:
        assert b"ObjectInputStream" not in answer
        assert answer == b"" or b"Expected SaslMessage" in answer
    assert sum(b"Expected SaslMessage" in answer for answer in answers) == 2


def test_no_answer_accumulator_or_unauthenticated_request_runs_code_in_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered, accumulated = tmp_path / "answered", tmp_path / "accumulated"
    spark = Spark(master="local", conf={}, home=tmp_path)
    try:
        spark.start()
        monkeypatch.setattr(window, "run_window", hostile(str(answered), str(accumulated)))
        with pytest.raises(GarbledOutcome, match="is refused"):
            spark.run(WindowRequest("hostile", 0.0, [], detach=True))
        assert not answered.exists()
        assert not accumulated.exists()
        assert spark._process is not None
        _check_listeners(spark._process.pid)
        monkeypatch.undo()
        assert spark.run(WindowRequest("honest", 0.0, [], detach=True)).lane == "honest", "and the next window is run"
    finally:
        spark.stop()
