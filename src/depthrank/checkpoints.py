"""Named weights from a file: safetensors, NPZ, NPY, PyTorch, or a Hugging Face folder.

No file can run code here. safetensors, NPZ and NPY are read without pickle and without PyTorch. A
PyTorch file is a pickle; it is opened by `torch.load(weights_only=True)`, which builds tensors and
plain containers and refuses everything else, and the refusal is passed on. Numbers keep their type,
except that bfloat16 becomes float32, exactly.
"""

import json
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from depthrank.errors import DepthrankError

__all__ = ["INSTALL_TORCH", "read_weights"]

INSTALL_TORCH = "pip install 'depthrank[torch]'"

_PYTORCH = (".pt", ".pth", ".bin", ".ckpt")

# Names of the safetensors format; a type that is missing here is named in the error.
_SAFETENSORS_TYPES = {
    "BOOL": "?", "U8": "<u1", "I8": "<i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4",
    "U64": "<u8", "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8",
}  # fmt: skip


def read_weights(path: str | Path) -> dict[str, np.ndarray]:
    """Read all named arrays of a file.

    Parameters
    ----------
    path : path
        `.safetensors`, `.npz`, `.npy`, a PyTorch file (`.pt`, `.pth`, `.bin`, `.ckpt`; needs the
        torch extra), or a folder as Hugging Face's libraries write it: every file that its index
        names, or all its safetensors files, or all its PyTorch files. A `.npy` file holds one
        array, named like the file. Of a training checkpoint the model's state is taken.

    Returns
    -------
    dict of str to ndarray
        In the order in which the file stores them. Arrays of a safetensors file are read from disk
        only where they are used.

    Raises
    ------
    DepthrankError
        If the file is missing, damaged or of another kind, if it holds Python objects or a number
        format that is not supported, or if it needs PyTorch, which is not installed.
    """
    path = Path(path)
    if path.is_dir():
        return _read_folder(path)
    if not path.is_file():
        raise DepthrankError(
            f"{path} does not exist; give a .safetensors, .npz, .npy or PyTorch file, or a folder "
            "of them."
        )
    suffix = path.suffix.lower()
    if suffix in _PYTORCH:
        return _read_pytorch(path)
    readers = {".safetensors": _read_safetensors, ".npz": _read_npz, ".npy": _read_npy}
    if suffix not in readers:
        raise DepthrankError(
            f"{path} has the ending {suffix!r}; weights are read from .safetensors, .npz, .npy, "
            f"{', '.join(_PYTORCH)} and folders."
        )
    return readers[suffix](path)


def _read_folder(path: Path) -> dict[str, np.ndarray]:
    """Read the weights of a folder: the files of its index, or all of one kind."""
    for index in sorted(path.glob("*.index.json")):
        try:
            named = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
            files = [str(name) for name in dict.fromkeys(named.values())]
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise DepthrankError(f"{index} is no index of weights: {error!r}.") from error
        # an index comes with the weights, from wherever they come: no way out of the folder
        if any(Path(name).name != name for name in files):
            raise DepthrankError(f"{index} names files outside its folder.")
        break
    else:
        for pattern in ("*.safetensors", "*.bin", "*.pt", "*.pth"):
            files = sorted(one.name for one in path.glob(pattern))
            if pattern != "*.safetensors":  # what trainers leave beside the weights
                files = [name for name in files if not name.startswith(_BESIDE)]
            if files:
                break
        else:
            raise DepthrankError(f"{path} is a folder without .safetensors or PyTorch weights.")
    weights: dict[str, np.ndarray] = {}
    for name in files:
        for key, array in read_weights(path / name).items():
            if key in weights:
                raise DepthrankError(f"{path} holds {key!r} twice, the second time in {name}.")
            weights[key] = array
    return weights


_BESIDE = ("optimizer", "scheduler", "training_args", "rng_state", "scaler")


def _read_pytorch(path: Path) -> dict[str, np.ndarray]:
    """Read tensors and nothing else from a PyTorch file."""
    import pickle

    try:
        import torch
    except ModuleNotFoundError as error:
        raise DepthrankError(
            f"{path} is a PyTorch file, and PyTorch is not installed: {INSTALL_TORCH}, or save the "
            "weights with safetensors.torch.save_file and give that file."
        ) from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on the pickle's version, before it is refused
            content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        reason = str(error).split("WeightsUnpickler error: ")[-1].split("\n")[0]
        raise DepthrankError(
            f"{path} was refused: it holds Python objects beside tensors ({reason}), and loading "
            "those could run code of whoever made the file. If you trust it, load it yourself and "
            "save model.state_dict()."
        ) from error
    except (RuntimeError, EOFError, OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise DepthrankError(
            f"{path} cannot be read as weights of PyTorch: {str(error).splitlines()[0]}"
        ) from error
    return {name: _array(tensor) for name, tensor in _tensors(_state(content), "")}


def _state(content: Any) -> Any:
    """Return the model's part of a training checkpoint."""
    if isinstance(content, Mapping):
        for key in ("state_dict", "model_state_dict", "model", "module"):
            if isinstance(content.get(key), Mapping):
                return content[key]
    return content


def _tensors(content: Any, prefix: str) -> list[tuple[str, Any]]:
    """List the tensors in nested dicts, with dotted names."""
    if hasattr(content, "detach"):
        return [(prefix or "tensor", content)]
    if not isinstance(content, Mapping):
        return []
    found = []
    for key, value in content.items():
        found += _tensors(value, f"{prefix}.{key}" if prefix else str(key))
    return found


def _array(tensor: Any) -> np.ndarray:
    tensor = tensor.detach()
    tensor = tensor.to_dense() if tensor.layout.__str__() != "torch.strided" else tensor
    if tensor.is_quantized:
        tensor = tensor.dequantize()
    if tensor.is_floating_point() and tensor.itemsize < 4:
        tensor = tensor.float()  # NumPy has no bfloat16 and no float8
    return np.asarray(tensor.numpy())


def _read_npy(path: Path) -> dict[str, np.ndarray]:
    try:
        return {path.stem: np.load(path, allow_pickle=False)}
    except (ValueError, EOFError, OSError) as error:
        raise DepthrankError(f"{path} cannot be read as an NPY file of numbers: {error}") from error


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    arrays = {}
    name = None
    try:
        with np.load(path, allow_pickle=False) as archive:
            for name in archive.files:
                arrays[name] = archive[name]
    except (ValueError, EOFError, OSError, TypeError, zipfile.BadZipFile) as error:
        where = "" if name is None else f" (array {name!r})"
        raise DepthrankError(
            f"{path}{where} cannot be read as an NPZ file of numbers: {error}"
        ) from error
    return arrays


def _read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """Map the file and cut the arrays out of it by its header.

    The library checks the file (offsets, sizes, names); the arrays are cut here because it gives
    bfloat16 to NumPy only in some versions.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy"):
            pass
    except (SafetensorError, OSError) as error:
        raise DepthrankError(f"{path} cannot be read as a safetensors file: {error}") from error
    data = np.memmap(path, dtype=np.uint8, mode="r")
    header_size = int(data[:8].view("<u8")[0])
    header = json.loads(data[8 : 8 + header_size].tobytes())
    header.pop("__metadata__", None)
    body = data[8 + header_size :]
    entries = sorted(header.items(), key=lambda entry: entry[1]["data_offsets"])
    return {name: _cut(body, name, entry) for name, entry in entries}


def _cut(body: np.ndarray, name: str, entry: Mapping[str, Any]) -> np.ndarray:
    """Return one array of a safetensors file."""
    begin, end = entry["data_offsets"]
    raw = np.asarray(body[begin:end])
    kind = entry["dtype"]
    if kind == "BF16":
        # the upper half of a float32
        values = (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)
    elif kind in _SAFETENSORS_TYPES:
        values = raw.view(_SAFETENSORS_TYPES[kind])
    else:
        raise DepthrankError(
            f"array {name!r} has the number format {kind}; supported are BF16, "
            f"{', '.join(_SAFETENSORS_TYPES)}."
        )
    return values.reshape(entry["shape"])
