"""Data for the networks: CIFAR from a folder, digits, and the masked multi-output task.

CIFAR's Python files are pickles; they are read by an unpickler that knows arrays and nothing else.
"""

import io
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from depthrank.errors import DepthrankError
from depthrank.seeds import generator

__all__ = ["Split", "cifar", "digits", "masked_task"]


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test data: inputs and integer labels."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray


class _Arrays(pickle.Unpickler):
    _ALLOWED = (
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("_codecs", "encode"),
    )

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name}")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def cifar(folder: str | Path, classes: int = 10) -> Split:
    """Read CIFAR-10 or CIFAR-100 from its binary or its Python files, unpacked in a folder.

    Parameters
    ----------
    folder : path
        Holds data_batch_1 ... 5 and test_batch (CIFAR-10, `.bin` or Python), or train and test
        (CIFAR-100). Nothing is downloaded.
    classes : {10, 100}

    Returns
    -------
    Split
        Images [samples, 3, 32, 32], uint8; labels int64 (fine ones of CIFAR-100).

    Raises
    ------
    DepthrankError
        If a file is missing, truncated, or not CIFAR's; it is named.
    """
    if classes not in (10, 100):
        raise DepthrankError(f"classes is {classes}; CIFAR has 10 or 100.")
    folder = Path(folder)
    train = [f"data_batch_{i}" for i in range(1, 6)] if classes == 10 else ["train"]
    binary = any((folder / f"{name}.bin").exists() for name in train)
    parts = []
    for name in (*train, "test_batch" if classes == 10 else "test"):
        path = folder / (f"{name}.bin" if binary else name)
        if not path.is_file():
            raise DepthrankError(
                f"{path} is missing; unpack CIFAR-{classes} (binary or Python version) there."
            )
        data = path.read_bytes()
        parts.append(_binary(path, data, classes) if binary else _python(path, data, classes))
    x = np.concatenate([one[0] for one in parts[:-1]])
    y = np.concatenate([one[1] for one in parts[:-1]])
    return Split(x, y, *parts[-1])


def _binary(path: Path, data: bytes, classes: int) -> tuple[np.ndarray, np.ndarray]:
    size = 3072 + (1 if classes == 10 else 2)
    if not data or len(data) % size:
        raise DepthrankError(
            f"{path} has {len(data)} bytes, which is no multiple of {size}: it is truncated, or "
            f"not CIFAR-{classes}."
        )
    records = np.frombuffer(data, np.uint8).reshape(-1, size)
    return _checked(path, records[:, -3072:], records[:, size - 3073], classes)


def _python(path: Path, data: bytes, classes: int) -> tuple[np.ndarray, np.ndarray]:
    try:
        found = _Arrays(io.BytesIO(data), encoding="bytes").load()
        labels = found[b"labels" if classes == 10 else b"fine_labels"]
        return _checked(path, np.asarray(found[b"data"]), np.asarray(labels), classes)
    except DepthrankError:
        raise
    except Exception as error:  # a damaged pickle raises whatever it likes
        raise DepthrankError(
            f"{path} is truncated, or not a Python file of CIFAR-{classes} ({error!r}); nothing in "
            "it was run."
        ) from error


def _checked(path: Path, x: Any, y: Any, classes: int) -> tuple[np.ndarray, np.ndarray]:
    if x.ndim != 2 or x.shape[1] != 3072 or len(x) != len(y) or x.dtype != np.uint8:
        raise DepthrankError(f"{path} holds images of shape {x.shape}, not CIFAR's 3072 bytes.")
    y = np.asarray(y, dtype=np.int64)
    if y.min() < 0 or y.max() >= classes:
        raise DepthrankError(f"{path} holds the label {y.max()}; CIFAR-{classes} has fewer.")
    return x.reshape(-1, 3, 32, 32), y


def digits(seed: int = 0) -> Split:
    """Return scikit-learn's 8 x 8 digits, 1437 to train on and 360 to test, float32 [n, 64].

    Divided by 16, centred, and scaled by one number. Comes with scikit-learn: no network.
    """
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    order = generator(seed, "digits").permutation(len(x))
    x, y = (x[order] / 16.0).astype(np.float32), y[order].astype(np.int64)
    mean, scale = x[:1437].mean(0), x[:1437].std()
    x = (x - mean) / scale
    return Split(x[:1437], y[:1437], x[1437:], y[1437:])


def masked_task(
    seed: int, *, size: int = 20, groups: int = 4, rank: int = 1, new: float = 0.25
) -> dict[str, np.ndarray]:
    """Return matrix completion posed as a network with missing labels.

    Samples are orthonormal (whitened) inputs; sample group g carries labels for output group g
    only, so that nothing connects the groups, until a share of all labels is added.

    Returns
    -------
    dict
        `target` [samples, outputs] of the given rank and unit mean square; `first` and `second`,
        the observed masks of the two phases.
    """
    if size % groups or not 0 <= new <= 1:
        raise DepthrankError(f"size {size} must divide into {groups} groups, new lie in [0, 1].")
    rng = generator(seed, "masked task")
    target = rng.standard_normal((size, rank)) @ rng.standard_normal((rank, size))
    target /= np.sqrt(np.mean(target**2))
    first = np.kron(np.eye(groups), np.ones((size // groups,) * 2)) > 0
    return {"target": target, "first": first, "second": first | (rng.random((size, size)) < new)}
