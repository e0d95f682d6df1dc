"""The Spark context: started with the settings that make small jobs fast, and asked for one window at a time."""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import structlog

from penstock.core.clock import SYSTEM, Clock
from penstock.core.errors import PenstockError, Terminal, Transient
from penstock.core.threads import THREADS, Thread, Threads
from penstock.engine.spark import cluster, worker_process
from penstock.engine.spark.cluster import SparkStartError
from penstock.engine.spark.job_stats import SparkJobStats
from penstock.engine.spark.jvm import ClassArchive, java_executable, own_folder, quarter_of_the_memory
from penstock.engine.spark.worker_process import WorkerProcess
from penstock.pipeline.crash_note import EVENT_BEGUN

if TYPE_CHECKING:
    # Kept out of the way: this module is imported first, so that the JVM starts while the others are loaded.
    from penstock.pipeline.in_flight_log import InFlight
    from penstock.worker.protocol import WindowOutcome, WindowRequest

log = structlog.get_logger("penstock.spark")

_LOG4J = """
status = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = spark %p %c{{1}}: %m%n%ex
rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = console
"""


_GREETINGS = (b"WARNING: Using incubator modules", b"Setting default log level", b"To adjust logging level use")
_SENSITIVE = re.compile(r"(?i)secret|password|token|access[.]?key")
"""Names of Spark properties that Spark itself hides: a command line must not show them either."""
_ENDS_WITHIN = 5.0
"""Seconds that the JVM is given to end by itself."""
_WORKER_DIED = "Python worker exited unexpectedly"
_EXECUTOR_LOST = ("ExecutorLostFailure", "ExecutorDeadException", "Executor heartbeat timed out", "decommission")
_SLOTS = 128
"""Threads that local windows may run in: more than there are ever lanes, for a lane must never wait for another."""


class SparkDied(PenstockError, Terminal):
    """Spark's JVM ended while the instance was running."""

    code = "spark-died"


class WindowLost(PenstockError, Transient):
    """A window ended without an outcome: its worker died, or its job was cancelled."""

    code = "window-lost"


class WindowRepeated(WindowLost):
    """Spark gave a window to a second executor because the first was gone before it began: no event is to blame."""

    code = "window-repeated"


class GarbledOutcome(WindowLost):
    """A worker answered something that cannot be the outcome of its window: no event is to blame."""

    code = "garbled-outcome"


class EventCrashed(WindowLost):
    """The Python worker of a cluster died while it was proven to be at an event, which may be to blame."""

    code = "event-crashed"


class Spark:
    """One Spark context. `run` may be called from many threads, one window each."""

    def __init__(
        self,
        *,
        master: str,
        conf: Mapping[str, str],
        home: Path,
        driver_output: str | None = None,
        worker_memory: int | None = None,
        scrub: Callable[[str], str] = str,
        clock: Clock = SYSTEM,
        threads: Threads = THREADS,
    ) -> None:
        self.master = f"local[{_SLOTS}]" if master == "local" or master.startswith("local[") else master
        self.is_local = self.master.startswith("local[")
        self.book = SparkJobStats(clock)
        self.cores = os.cpu_count() or 1
        """Windows that can run side by side; of a cluster known once it has started."""
        self._conf = dict(conf)
        self._clock, self._threads = clock, threads
        self._output = driver_output
        self._memory = worker_memory
        self._scrub = scrub
        self._building = threading.Lock()
        self._lane_jobs: dict[str, Any] = {}
        self._sc: Any = None
        self._stopping = False
        self._starting: Thread | None = None
        self._start_error: Exception | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = own_folder()
        atexit.register(shutil.rmtree, self._folder, ignore_errors=True)
        self._archive = ClassArchive(home, self._folder)

    def begin(self, *, lanes: Sequence[str] = ()) -> None:
        """Start in the background, with these lanes' processes: it takes seconds in which other things can be done."""
        self._starting = self._threads.start(
            "spark-start", lambda: self._start_noting(lanes), owner="Spark", ends="when Spark has started"
        )

    def _start_noting(self, lanes: Sequence[str]) -> None:
        try:
            self._start()
            warming = [
                self._threads.start(f"warm-{lane}", partial(self._warm, lane), owner="Spark", ends="with its window")
                for lane in lanes
                if self.is_local
            ]
            for thread in warming:
                # A lane that ran two windows at once would have two processes.
                thread.join()
        except Exception as error:  # noqa: BLE001 - raised by `start`, in the thread that wants to know
            self._start_error = error

    def _warm(self, lane: str) -> None:
        from penstock.worker.protocol import WindowRequest  # noqa: PLC0415 - as at the top of this module

        # A lane that cannot be started now says so when it is wanted.
        with contextlib.suppress(WindowLost):
            self.run(WindowRequest(lane, 0.0, [], detach=True))

    def start(self) -> None:
        """Wait until the context is there; 3-4 s from the second start on a machine."""
        if self._starting is None:
            self.begin()
        if self._starting is not None:
            self._starting.join()
        if self._start_error is not None:
            raise self._start_error

    def _start(self) -> None:
        os.environ["PYSPARK_PYTHON"] = self._conf.get("spark.pyspark.python", sys.executable)
        os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        if self.is_local:
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        if java_executable() is None:
            raise SparkStartError(
                "Java was not found",
                received=os.environ.get("JAVA_HOME"),
                allowed="Java 17 or newer",
                hint="install a JRE 17, or set JAVA_HOME",
            )
        refuse_repeats(self._conf)
        from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - half a second that only `run` pays
        from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 - as above

        launch, conf = SparkConf(loadDefaults=False), SparkConf(loadDefaults=False)
        for name, value in (self._settings() | self._conf).items():
            conf.set(name, value)
            if not _SENSITIVE.search(name):
                # I8: these become arguments of a command that everybody on the machine can see.
                launch.set(name, value)
        try:
            gateway = launch_gateway(  # type: ignore[no-untyped-call]  # pyspark has no types here
                launch, {"stderr": subprocess.PIPE}
            )
            self._process = gateway.proc
            self._threads.start(
                "spark-stderr", partial(self._forward, gateway.proc.stderr), owner="Spark", ends="with the JVM"
            )
            self._sc = SparkContext(gateway=gateway, conf=conf)
            _close_accumulators(self._sc)
        except Exception as error:
            raise SparkStartError(
                f"Spark did not start: {error}", hint="`penstock doctor` looks at Java and Spark"
            ) from error
        if not self.is_local:
            self.cores = cluster.join(self._sc, self.master, self._folder, self._clock)

    def _forward(self, stream: IO[bytes]) -> None:
        """Pass on what the JVM and the workers say, without Spark's greetings and without the noise of an ending."""
        for line in stream:
            if not self._stopping and not line.startswith(_GREETINGS):
                # I8: errors of libraries in workers may repeat a password.
                text = self._scrub(line.decode("utf-8", "backslashreplace").rstrip("\n"))
                sys.stderr.buffer.write(f"{text}\n".encode("utf-8", "backslashreplace"))
                sys.stderr.buffer.flush()

    def _settings(self) -> dict[str, str]:
        log = self._folder / "log4j2.properties"
        log.write_text(_LOG4J.format(level=os.environ.get("PENSTOCK_SPARK_LOG", "fatal")))
        java = [
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            f"-Djava.io.tmpdir={self._folder}",
            f"-Dlog4j2.configurationFile=file:{log}",
            "-Xlog:disable",
            "-Xlog:all=error:stderr",
            *self._archive.options(),
        ]
        settings = {
            "spark.app.name": "penstock",
            "spark.master": self.master,
            # Spark repeats nothing by itself: what ran is known only by its outcome. `refuse_repeats` refuses others.
            "spark.task.maxFailures": "1",
            "spark.speculation": "false",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.python.worker.reuse": "true",
            # Takes 33-47 ms off every small Python job.
            "spark.python.unix.domain.socket.enabled": "true",
            "spark.python.daemon.module": "penstock.worker.daemon",
            "spark.local.dir": str(self._folder),
            "spark.driver.extraJavaOptions": " ".join(java),
            "spark.driver.memory": "512m",
            "spark.cleaner.periodicGC.interval": "10min",
            # A window's task is a few kilobytes: packing it costs more than it saves.
            "spark.broadcast.compress": "false",
            "spark.broadcast.checksum": "false",
            # They are not shown while the UI is off, and memory stays flat over a million windows.
            "spark.ui.liveUpdate.period": "-1",
            "spark.ui.retainedJobs": "20",
            "spark.ui.retainedStages": "20",
            "spark.ui.retainedTasks": "100",
        }
        if self.is_local:
            settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
            # Other users of the machine reach the JVM's ports, which deserialise Java objects. Spark makes the secret.
            settings["spark.authenticate"] = "true"
            # By default twice as many as the master has slots, which are lanes here: over a hundred for a few messages.
            settings["spark.rpc.netty.dispatcher.numThreads"] = "4"
        else:
            # The daemon starts before the product's code arrives there.
            settings["spark.python.daemon.module"] = "pyspark.daemon"
            # Adds what a worker noted to the error when it dies (`pipeline.crash_note`).
            settings["spark.python.worker.faulthandler.enabled"] = "true"
            if self._conf.get("spark.authenticate", "true").lower() != "false":
                # Passwords of pipelines travel with the windows. A standalone master may do without the encryption.
                settings |= {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
                cluster.require_secret(self.master, self._conf)
        return settings

    @property
    def jobs(self) -> int:
        """How many were begun."""
        return self.book.jobs

    @property
    def died(self) -> bool:
        """True when the JVM ended by itself: no window will ever run again."""
        return self._process is not None and not self._stopping and self._process.poll() is not None

    def in_flight_log(self, lane: str) -> str | None:
        """Path of the file in which the lane's worker notes what it is acting on; None on clusters."""
        return str(self._folder / f"{lane}.in-flight") if self.is_local else None

    def read_in_flight(self, lane: str) -> dict[int, list[InFlight]] | None:
        """By unit, what the lane's last process was acting on; None on clusters."""
        from penstock.pipeline import in_flight_log  # noqa: PLC0415 - as at the top of this module

        path = self.in_flight_log(lane)
        return None if path is None else in_flight_log.read(path)

    def stop_units(self, lane: str, units: Collection[int]) -> None:
        """Ask units of the lane's process to begin no further act, without waiting."""
        from penstock.pipeline import in_flight_log  # noqa: PLC0415 - as at the top of this module

        path = self.in_flight_log(lane)
        if path is not None and not in_flight_log.request_stop(path, set(units)):
            log.warning("units cannot be asked to stop; they end with their window", lane=lane, units=len(units))

    def identify(self, lane: str, pid: int) -> WorkerProcess | None:
        """The worker process of the lane with this id; None: there is none, or it is not this lane's."""
        return worker_process.identify(pid, lane) if self.is_local else None

    def current_process(self, lane: str) -> WorkerProcess | None:
        """The process that writes the lane's in-flight log; None: it is gone, or there was none yet."""
        from penstock.pipeline import in_flight_log  # noqa: PLC0415 - as at the top of this module

        path = self.in_flight_log(lane)
        pid = None if path is None else in_flight_log.writer(path)
        return None if pid is None else self.identify(lane, pid)

    def end_process(self, process: WorkerProcess) -> bool:
        """Kill a worker process and wait until it is gone; False when it is still there after some seconds."""
        return worker_process.end(process, self._clock)

    @property
    def bell(self) -> str | None:
        """Socket at which workers announce new runs to this instance; None on clusters, which do not reach it."""
        return str(self._folder / "bell") if self.is_local else None

    def cancel(self, lane: str) -> None:
        """End the lane's window and its worker process, wherever it runs."""
        if self._sc is not None:
            with contextlib.suppress(Exception):
                self._sc.cancelJobsWithTag(_tag(lane))

    def run(self, request: WindowRequest) -> WindowOutcome:
        """Run one window as one Spark job; raises `WindowLost` when no outcome comes back."""
        from penstock.worker.protocol import REPEATED, UnreadableAnswer, unpacked  # noqa: PLC0415 - as at the top

        payload = pickle.dumps(request, protocol=pickle.HIGHEST_PROTOCOL)
        try:
            job = self._job(request.lane, payload)
            with self.book.job(request.lane, [unit.pipeline for unit in request.units]):
                # Straight through the gateway: `RDD.collect` opens a socket for each answer, which takes 8 ms more.
                (answer,) = job.collect()
        except Exception as error:
            text = str(error)
            kind = WindowRepeated if REPEATED in text else EventCrashed if _died_at_event(text) else WindowLost
            raise kind(_reason(error)) from error
        try:
            return unpacked(bytes(answer))
        except UnreadableAnswer as error:
            raise GarbledOutcome(f"the worker's answer cannot be read and is refused: {error}") from error

    def _job(self, lane: str, payload: bytes) -> Any:
        """The Java RDD that runs this payload."""
        if not self.is_local:
            self._sc.addJobTag(_tag(lane))
            return self._built(lane, payload)
        # Building an RDD takes the gateway 10 ms. A lane's is built once, over the name of the file that the request is
        # put into; the folder is private and the worker removes the file when it has read it.
        file = self._folder / f"{lane}.request"
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            out.write(payload)
        if lane not in self._lane_jobs:
            self._lane_jobs[lane] = self._built(lane, b"file:" + os.fsencode(file))
        return self._lane_jobs[lane]

    def _built(self, lane: str, element: bytes) -> Any:
        from penstock.worker.window import run_window  # noqa: PLC0415 - imports pyspark

        with self._building:
            # Each value of the variable has a daemon and worker process, the same every time: that makes a lane.
            self._sc.environment["PENSTOCK_LANE"] = lane
            if self._output and self.is_local:
                self._sc.environment["PENSTOCK_STDOUT"] = self._output
            if self.bell is not None:
                self._sc.environment["PENSTOCK_BELL"] = self.bell
                self._sc.environment["PENSTOCK_MEMORY"] = str(self._memory or quarter_of_the_memory())
            windows = self._sc.parallelize([element], 1).mapPartitions(run_window)
            # The worker's bytes come back as they are: PySpark would pickle them there, for the driver to unpickle.
            windows._bypass_serializer = True  # noqa: SLF001 - no public name
            # The environment is taken when this is built.
            return windows._jrdd  # noqa: SLF001 - as above

    def stop(self, within: float = 20.0) -> None:
        """End context and JVM; on the first start of a machine the JVM writes its class archive on the way out, for
        which there are so many seconds."""
        if self._starting is not None:
            self._starting.join()
        self._stopping = True
        if self._sc is not None:
            with contextlib.suppress(Exception):
                self._sc.stop()
            with contextlib.suppress(Exception):
                self._sc._gateway.shutdown()  # noqa: SLF001 - there is no public way to end the JVM
            type(self._sc)._gateway = None  # noqa: SLF001 - so that another context in this process starts a JVM of its own
            type(self._sc)._jvm = None  # noqa: SLF001 - as above
            self._sc = None
        if self._process is not None:
            self._end_process(self._process, within if self._archive.is_new else _ENDS_WITHIN)
            self._process = None
        self._archive.keep()
        shutil.rmtree(self._folder, ignore_errors=True)

    @staticmethod
    def _end_process(process: subprocess.Popen[bytes], within: float) -> None:
        if process.stdin:
            process.stdin.close()
        try:
            process.wait(timeout=within)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=5)


def _close_accumulators(context: Any) -> None:
    """End the thread that unpickles, in this process, what workers add to accumulators: Penstock has none."""
    context._accumulatorServer.shutdown()  # noqa: SLF001 - PySpark always starts it
    context._accumulatorServer = None  # noqa: SLF001 - as above
    # Jobs built from now on name no accumulator, so executors drop the updates of their workers.
    context._javaAccumulator = None  # noqa: SLF001 - as above


def refuse_repeats(conf: Mapping[str, str]) -> None:
    """Refuse settings by which Spark would run a window twice: nothing but its outcome says what a window did."""
    speculation = conf.get("spark.speculation", "false").strip().lower()
    if speculation != "false":
        raise SparkStartError(
            "spark.speculation runs a window a second time while the first still acts",
            received=f"spark.speculation={speculation}",
            allowed="false",
            hint="remove spark.speculation from spark.conf",
        )
    failures = conf.get("spark.task.maxFailures", "1").strip()
    if failures != "1":
        raise SparkStartError(
            "spark.task.maxFailures above 1 repeats a window that may have acted",
            received=f"spark.task.maxFailures={failures}",
            allowed="1",
            hint="remove spark.task.maxFailures from spark.conf; Penstock repeats windows itself",
        )


def _died_at_event(text: str) -> bool:
    """Whether a cluster's worker process died by itself while it was at work on events. Everything else (a lost
    executor, a missing package, a full disk) is an outage: rather never blame an event than blame a wrong one."""
    return _WORKER_DIED in text and EVENT_BEGUN in text and not any(sign in text for sign in _EXECUTOR_LOST)


def _tag(lane: str) -> str:
    return f"lane-{lane}"


def _reason(error: Exception) -> str:
    """The one line of a Spark failure that says something."""
    text = str(error)
    for line in text.splitlines():
        if "SparkException" in line or "worker exited" in line or "Error:" in line:
            return line.strip()[:500]
    return text.strip()[:500] or type(error).__name__
