"""Where batches run: in this process, or in processes of their own.

An executor takes batches from a queue and hands back what became of them. Processes, not threads:
two threads that compile and integrate at once may wait for each other.
"""

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from depthrank.errors import DepthrankError
from depthrank.sweeps.batches import Batch
from depthrank.sweeps.estimate import cell_seconds
from depthrank.sweeps.tasks import Results, Told, run

__all__ = ["Executor", "Here", "Outcome", "Pool", "attempt"]


@dataclass(frozen=True)
class Outcome:
    """What became of a batch.

    Attributes
    ----------
    batch : Batch
    results : Results or None
        None if the batch as a whole failed.
    reason : str
        Why it did.
    died : bool
        Whether the process or its memory gave out, rather than the code refusing.
    """

    batch: Batch
    results: Results | None
    reason: str = ""
    died: bool = False


class Executor(Protocol):
    """What the loop asks of one; close it when done."""

    def start(self, queue: list[Batch]) -> bool:
        """Take one batch from the queue and start it, if there is room."""
        ...

    @property
    def busy(self) -> int:
        """Number of batches under way."""
        ...

    def finished(self) -> list[Outcome]:
        """Wait for a while and return what has ended."""
        ...

    def close(self) -> None:
        """End everything that still runs."""
        ...


def attempt(batch: Batch, progress: Told | None = None) -> Outcome:
    """Run a batch here and return what became of it, whatever that is."""
    try:
        return Outcome(batch, run(batch, progress))
    except MemoryError:
        return Outcome(batch, None, "out of memory", died=True)
    except Exception as error:
        if "RESOURCE_EXHAUSTED" in str(error):  # JAX's way to say so
            return Outcome(batch, None, "out of memory", died=True)
        if isinstance(error, DepthrankError):
            return Outcome(batch, None, str(error))
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(last.filename)}:{last.lineno}"
        return Outcome(batch, None, f"{type(error).__name__}: {error} ({where})")


class Here:
    """Runs every batch in this process.

    Parameters
    ----------
    progress : callable, optional
        Called with (cells ended, cells) of the batch under way.
    """

    def __init__(self, progress: Told | None = None) -> None:
        self._progress = progress
        self._done: list[Outcome] = []

    def start(self, queue: list[Batch]) -> bool:
        """Run the first batch of the queue to its end."""
        if self._done:
            return False
        self._done.append(attempt(queue.pop(0), self._progress))
        return True

    @property
    def busy(self) -> int:
        """Number of batches whose outcome has not been fetched."""
        return len(self._done)

    def finished(self) -> list[Outcome]:
        """Return the outcome of the batch that was run."""
        done, self._done = self._done, []
        return done

    def close(self) -> None:
        """Nothing runs on."""


class _Worker:
    """A process that runs one batch after another."""

    def __init__(self, target: Callable[[Connection], None]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=target, args=(theirs,), daemon=True)
        self.process.start()
        theirs.close()  # else its end would stay open here when the process dies
        self.batch: Batch | None = None
        self.known: set[Any] = set()


class Pool:
    """Runs batches in several processes of this machine.

    Each worker keeps to the programs that it has compiled while there is work for them. A worker
    that dies costs the batch it held, and is replaced.

    Parameters
    ----------
    workers : int
        Number of processes.
    """

    def __init__(self, workers: int) -> None:
        self._workers = [_Worker(_serve) for _ in range(workers)]

    def start(self, queue: list[Batch]) -> bool:
        """Give an idle worker the batch that suits it best."""
        idle = [worker for worker in self._workers if worker.batch is None]
        if not idle:
            return False
        worker = max(idle, key=lambda one: any(_program(b) in one.known for b in queue))
        batch = self._suited(worker, queue)
        queue.remove(batch)
        try:
            worker.pipe.send(batch)
        except OSError:  # it died while idle: another takes its place and the batch
            self._replace(worker)
            queue.insert(0, batch)
            return True
        worker.batch = batch
        worker.known.add(_program(batch))
        return True

    def _suited(self, worker: _Worker, queue: list[Batch]) -> Batch:
        taken = {program for other in self._workers for program in other.known}
        remaining: dict[Any, float] = {}
        for batch in queue:
            program, cost = _program(batch), cell_seconds(batch) * len(batch.cells)
            remaining[program] = remaining.get(program, 0.0) + cost

        def merit(batch: Batch) -> tuple[bool, bool, float]:
            program = _program(batch)
            return program in worker.known, program not in taken, remaining[program]

        return max(queue, key=merit)

    @property
    def busy(self) -> int:
        """Number of batches under way."""
        return sum(worker.batch is not None for worker in self._workers)

    def finished(self) -> list[Outcome]:
        """Wait for up to a second and return what has ended."""
        running = {worker.pipe: worker for worker in self._workers if worker.batch is not None}
        done = []
        for pipe in wait(list(running), timeout=1.0):
            worker = running[pipe]  # type: ignore[index]
            batch = worker.batch
            assert batch is not None
            try:
                done.append(worker.pipe.recv())
                worker.batch = None
            except (EOFError, OSError):
                worker.process.join()
                code = worker.process.exitcode or 0
                how = signal.Signals(-code).name if code < 0 else f"status {code}"
                done.append(Outcome(batch, None, f"its process died ({how})", died=True))
                self._replace(worker)
        return done

    def _replace(self, worker: _Worker) -> None:
        worker.pipe.close()
        self._workers[self._workers.index(worker)] = _Worker(_serve)

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers."""
        return [worker.process.pid or 0 for worker in self._workers]

    def close(self) -> None:
        """End the workers, whatever they are doing."""
        for worker in self._workers:
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join()
            worker.pipe.close()


def _program(batch: Batch) -> Any:
    return batch.group


def _serve(pipe: Connection) -> None:
    """Run batches as they come, until the other end is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the main process
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)  # nobody is left to take the result

    threading.Thread(target=follow, daemon=True).start()
    while True:
        try:
            pipe.send(attempt(pipe.recv()))
        except (EOFError, BrokenPipeError):
            return
