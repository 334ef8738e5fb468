"""The `.depthrank` file: a fitted completion, to be used or updated later.

A zip archive of `model.json` (parameters, labels, report, versions) and `arrays.safetensors`
(factors, offsets, scales, observed cells). Nothing in it is code, and nothing is unpickled.
"""

import dataclasses
import hashlib
import json
import math
import zipfile
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from depthrank import initialization
from depthrank._version import __version__
from depthrank.completion.estimator import DeepMatrixCompletion
from depthrank.completion.model import CompletionModel
from depthrank.completion.offsets import Preparation
from depthrank.errors import DepthrankError
from depthrank.factors import check_factors
from depthrank.files.atomic import atomic
from depthrank.observations import Observations

FORMAT = 1
_JSON, _ARRAYS = "model.json", "arrays.safetensors"
_UNSAVED = ("progress", "random_state")  # a function, and what the seed of the report replaces
_STARTS = {
    name: getattr(initialization, name)
    for name in ("AlphaM", "Gaussian", "TiedGaussian", "Identity", "Orthogonal")
}


def save(estimator: DeepMatrixCompletion, path: str | PathLike[str]) -> None:
    """Write a fitted estimator to a model file, under a temporary name first.

    The recorded course (`trajectory_`) is not kept, and `random_state` becomes the seed that was
    used.

    Parameters
    ----------
    estimator : DeepMatrixCompletion
        Fitted.
    path : path_like
        Usually `NAME.depthrank`; an existing file is replaced.

    Raises
    ------
    DepthrankError
        If the estimator is not fitted, a label is neither text nor a number nor a truth value, or
        the start is not one of depthrank's own.
    """
    from safetensors.numpy import save as to_bytes

    if not estimator.__sklearn_is_fitted__():
        raise DepthrankError("the estimator is not fitted, so there is no model to save; call fit.")
    model = estimator._model
    seen, way = model.observations, model.preparation
    arrays = {f"factor_{i}": W for i, W in enumerate(model.factors, 1)}
    arrays |= {"rows": seen.rows, "cols": seen.cols, "values": seen.values}
    arrays |= {"row_effects": way.row_effects, "col_effects": way.col_effects}
    arrays |= {"scales": way.scales}
    if model.calibration is not None:
        arrays["calibration"] = model.calibration
    packed = to_bytes({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    names = getattr(estimator, "feature_names_in_", None)
    document = {
        "format": FORMAT,
        "depthrank": __version__,
        "parameters": _parameters(estimator),
        "shape": list(seen.shape),
        "row_labels": _labels_out(seen.row_labels),
        "col_labels": _labels_out(seen.col_labels),
        "n_duplicates": seen.n_duplicates,
        "feature_names": None if names is None else [str(name) for name in names],
        "preparation": {
            "offsets": way.offsets,
            "scaling": way.scaling,
            "mean": way.mean,
            "size_ratio": way.size_ratio,
        },
        "noise": model.noise,
        "rank": model.rank,
        "depth": len(model.factors),
        "seed": estimator.seed_,
        "report": estimator.report_,
        "arrays_sha256": hashlib.sha256(packed).hexdigest(),
    }
    text = json.dumps(document, ensure_ascii=False, indent=1)
    with atomic(path) as handle, zipfile.ZipFile(handle, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_JSON, text)
        archive.writestr(_ARRAYS, packed)


def load(path: str | PathLike[str]) -> DeepMatrixCompletion:
    """Read a model file.

    Parameters
    ----------
    path : path_like
        What `save` wrote.

    Returns
    -------
    DeepMatrixCompletion
        Fitted; its answers are those of the one that was saved. It has no `trajectory_`.

    Raises
    ------
    DepthrankError
        If there is no such file, or it is truncated, edited, of another kind or of a later format.
    """
    document, arrays = _read(Path(path))
    try:
        return _restore(document, arrays)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DepthrankError(
            f"{str(path)!r} is not a complete model file ({type(error).__name__}: {error}); "
            "save it again."
        ) from None


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load as from_bytes

    if not path.is_file():
        raise DepthrankError(f"there is no model file {str(path)!r}.")
    try:
        with zipfile.ZipFile(path) as archive:
            document = json.loads(archive.read(_JSON).decode())
            packed = archive.read(_ARRAYS)
        if not isinstance(document, dict):
            raise ValueError(f"{_JSON} holds no object")
        version = document.get("format")
        if version == FORMAT:
            if hashlib.sha256(packed).hexdigest() != document.get("arrays_sha256"):
                raise ValueError("its arrays do not match their checksum")
            return document, from_bytes(packed)
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, EOFError, SafetensorError) as error:
        raise DepthrankError(
            f"{str(path)!r} is not a model file, or is damaged ({error}); save it again."
        ) from None
    raise DepthrankError(
        f"{str(path)!r} has the model format {version!r} (written by depthrank "
        f"{document.get('depthrank')!r}); this version reads format {FORMAT}."
    )


def _restore(document: dict[str, Any], arrays: dict[str, np.ndarray]) -> DeepMatrixCompletion:
    m, n = document["shape"]
    seen = Observations(
        (m, n),
        arrays["rows"],
        arrays["cols"],
        arrays["values"],
        _labels_in(document["row_labels"]),
        _labels_in(document["col_labels"]),
        n_duplicates=int(document["n_duplicates"]),
    )
    kept = document["preparation"]
    way = Preparation(
        kept["offsets"],
        kept["scaling"],
        float(kept["mean"]),
        arrays["row_effects"],
        arrays["col_effects"],
        arrays["scales"],
        float(kept["size_ratio"]),
    )
    sizes = (way.row_effects.shape, way.col_effects.shape, way.scales.shape)
    if sizes != ((m,), (n,), (n,)):
        raise ValueError(f"offsets and scales have shapes {sizes}")
    chain = [arrays[f"factor_{i}"] for i in range(1, int(document["depth"]) + 1)]
    factors = check_factors(chain, (m, n))
    estimator = DeepMatrixCompletion(**_parameters_in(document["parameters"]))
    estimator.set_params(random_state=int(document["seed"]))
    estimator.seed_ = int(document["seed"])
    estimator._model = CompletionModel(
        seen,
        way,
        factors,
        float(document["noise"]),
        int(document.get("rank", 1)),
        arrays.get("calibration"),
    )
    estimator.factors_ = factors
    estimator.report_ = dict(document["report"])
    estimator.n_features_in_ = n
    if document["feature_names"] is not None:
        estimator.feature_names_in_ = np.array(document["feature_names"], dtype=object)
    return estimator


def _parameters(estimator: DeepMatrixCompletion) -> dict[str, Any]:
    """Return the parameters as JSON can hold them; a NaN is written as the text "NaN"."""
    parameters = {k: v for k, v in estimator.get_params().items() if k not in _UNSAVED}
    start = parameters["init"]
    if start is not None:
        if type(start).__name__ not in _STARTS:
            raise DepthrankError(
                f"init is {start!r}; only depthrank's own starts can be kept in a model file."
            )
        parameters["init"] = {type(start).__name__: dataclasses.asdict(start)}
    marks = parameters["missing"]
    single = np.ndim(marks) == 0
    parameters["missing"] = [_mark_out(x) for x in ([marks] if single else marks)]
    return {k: v.item() if isinstance(v, np.generic) else v for k, v in parameters.items()}


def _parameters_in(parameters: dict[str, Any]) -> dict[str, Any]:
    restored = dict(parameters)
    if restored["init"] is not None:
        ((name, fields),) = restored["init"].items()
        restored["init"] = _STARTS[name](**fields)
    marks = [math.nan if x == "NaN" else x for x in restored["missing"]]
    restored["missing"] = marks[0] if len(marks) == 1 else marks
    return restored


def _mark_out(mark: Any) -> Any:
    mark = mark.item() if isinstance(mark, np.generic) else mark
    return "NaN" if isinstance(mark, float) and math.isnan(mark) else mark


def _labels_out(labels: tuple[Any, ...] | None) -> list[Any] | None:
    if labels is None:
        return None
    plain = [label.item() if isinstance(label, np.generic) else label for label in labels]
    for label in plain:
        if not isinstance(label, str | int | float):
            raise DepthrankError(
                f"the label {label!r} is a {type(label).__name__}; a model file keeps text, "
                "numbers and truth values. Turn the labels into text first."
            )
    return plain


def _labels_in(labels: list[Any] | None) -> tuple[Any, ...] | None:
    return None if labels is None else tuple(labels)
