"""Batches on Ray: a cluster on this machine, or one that runs already (extra `ray`)."""

import logging
import os
from typing import Any

from depthrank.errors import DepthrankError
from depthrank.sweeps.batches import Batch
from depthrank.sweeps.executors import Outcome, attempt

__all__ = ["Cluster"]

# What decides which compiled programs are found, and how: workers need the same.
_PASSED = ("JAX_", "XLA_", "TF_CPP_", "DEPTHRANK_", "PYTHONPATH")


class Cluster:
    """Runs batches as Ray tasks, as many at a time as the cluster has room for.

    Parameters
    ----------
    address : str
        "local" starts a cluster on this machine; otherwise an address as `ray.init` takes it.
    workers : int, optional
        Processors of a local cluster; all of the machine if left.
    gpus : float, default 0
        GPUs that one batch takes; Ray sees to it that it gets them.

    Raises
    ------
    DepthrankError
        If Ray is not installed or the cluster cannot be reached.
    """

    def __init__(self, address: str, workers: int | None = None, gpus: float = 0.0) -> None:
        try:
            import ray
        except ImportError:
            raise DepthrankError(
                "--ray needs Ray, which is not installed; install it with "
                "`pip install 'depthrank[ray]'`, or leave --ray out."
            ) from None
        self._ray: Any = ray
        self._began = not ray.is_initialized()
        passed = {key: value for key, value in os.environ.items() if key.startswith(_PASSED)}
        options: dict[str, Any] = {
            "runtime_env": {"env_vars": passed},
            "logging_level": logging.ERROR,
            "log_to_driver": False,
        }
        if address == "local":
            options |= {"num_cpus": workers, "include_dashboard": False}
        if self._began:
            try:
                ray.init(address=address, **options)
            except Exception as error:  # Ray raises bare ones too
                raise DepthrankError(f"cannot reach Ray at {address!r}: {error}") from None
        self._remote = ray.remote(max_retries=0, num_cpus=1, num_gpus=gpus)(attempt)
        self._room = max(int(ray.cluster_resources().get("CPU", 1)), 1)
        self._running: dict[Any, Batch] = {}

    def start(self, queue: list[Batch]) -> bool:
        """Submit the first batch of the queue."""
        if len(self._running) >= self._room:
            return False
        batch = queue.pop(0)
        self._running[self._remote.remote(batch)] = batch
        return True

    @property
    def busy(self) -> int:
        """Number of batches submitted and not ended."""
        return len(self._running)

    def finished(self) -> list[Outcome]:
        """Wait for up to a second and return what has ended."""
        ready, _ = self._ray.wait(list(self._running), timeout=1.0)
        done = []
        for reference in ready:
            batch = self._running.pop(reference)
            try:
                done.append(self._ray.get(reference))
            except self._ray.exceptions.RayError as error:  # a worker or a node was lost
                reason = f"its Ray worker died ({type(error).__name__})"
                done.append(Outcome(batch, None, reason, died=True))
        return done

    def close(self) -> None:
        """Cancel what still runs, and end the cluster if it was begun here."""
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        if self._began:
            self._ray.shutdown()
