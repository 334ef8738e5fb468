"""Settings of the process that make small networks quick, put back afterwards."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

__all__ = ["flushes_denormals", "quick_for_small_networks"]


def flushes_denormals() -> bool:
    """Tell whether this thread rounds denormal numbers to zero; PyTorch itself does not say."""
    smallest = sys.float_info.min
    return smallest / 2 == 0.0


@contextmanager
def quick_for_small_networks() -> Iterator[None]:
    """Use one thread, and round denormal numbers to zero; afterwards both are as before.

    Threads of a small network wait for each other, and weights under decay become denormal, which
    is slow. The rounding holds for everything that the thread computes, NumPy included.
    """
    threads, flushing = torch.get_num_threads(), flushes_denormals()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(flushing)
        torch.set_num_threads(threads)
