"""Rank measures of a model's weights, on the device where they are, many layers at a time."""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from depthrank.baselines import baseline, measures_of
from depthrank.errors import DepthrankError
from depthrank.networks.layers import Layer, Rules, find_layers

__all__ = ["end_to_end_matrix", "spectra_of", "weight_table"]

METHODS = ("auto", "svd", "gram")
# Below this ratio of smallest to largest eigenvalue the Gram matrix has lost digits of the
# smallest singular value; above it every singular value is good to 1e-8 (relative).
_SAFE = 1e-8


@torch.no_grad()
def spectra_of(stacks: Sequence[Any], *, method: str = "auto") -> list[np.ndarray]:
    """Return the singular values of many stacks of matrices, those of one shape together.

    Parameters
    ----------
    stacks : sequence of tensors [b, m, n]
        On any device, of any floating type: half precision is computed as float32, and what
        is computed is scaled first, so that nothing overflows.
    method : {"auto", "svd", "gram"}
        "gram" takes eigenvalues of X Xᵀ in float64, four to six times cheaper; singular values
        below 1e-8 of the largest are rounding. "svd" decomposes X itself in float64. "auto" takes
        the first where the smallest singular value is above 1e-4 of the largest, and otherwise
        the second.

    Returns
    -------
    list of ndarray [b min(m, n)]
        Float64, descending: the blocks of a stack together. NaN throughout where a weight is not
        finite.

    Raises
    ------
    DepthrankError
        If the method is unknown.
    """
    if method not in METHODS:
        raise DepthrankError(f"method is {method!r}; it must be one of {', '.join(METHODS)}.")
    result: list[np.ndarray] = [np.empty(0)] * len(stacks)
    together: dict[Any, list[int]] = defaultdict(list)
    for i, stack in enumerate(stacks):
        m, n = sorted(stack.shape[1:])
        together[(m, n, stack.device, stack.dtype)].append(i)
    for positions in together.values():
        wide = [s if s.shape[1] <= s.shape[2] else s.mT for s in (stacks[i] for i in positions)]
        counts = [s.shape[0] for s in wide]
        values = _batch(torch.cat(wide), method).split(counts)
        for i, s in zip(positions, values, strict=True):
            result[i] = np.sort(s.numpy(), axis=None)[::-1].copy()
    return result


def _batch(X: Any, method: str) -> Any:
    """Return singular values [b, m] of matrices [b, m, n], m <= n, in float64 on the CPU."""
    if X.device.type == "mps":
        X = X.cpu()  # float64 does not exist there
    # the scaling is done in float32 at least, where a norm of half precision cannot overflow
    X = X if X.dtype in (torch.float32, torch.float64) else X.float()
    scale = X.abs().amax(dim=(-2, -1)).double()
    finite = torch.isfinite(scale)
    safe = torch.where(finite & (scale > 0), scale, torch.ones_like(scale))[:, None, None]
    X = torch.where(finite[:, None, None], X.double() / safe, torch.zeros_like(safe))
    if method == "svd":
        s = torch.linalg.svdvals(X)
    else:
        squares = torch.linalg.eigvalsh(X @ X.mT)
        s = squares.clamp_min(0).sqrt().flip(-1)
        rough = squares[:, 0] < _SAFE * squares[:, -1]
        if method == "auto" and bool(rough.any()):
            s[rough] = torch.linalg.svdvals(X[rough])
    s = s * safe[:, 0]
    return torch.where(finite[:, None], s, torch.full_like(s, math.nan)).cpu()


def weight_table(
    model: nn.Module,
    *,
    rules: Rules | None = None,
    scheme: str = "iid",
    method: str = "auto",
) -> list[dict[str, Any]]:
    """Measure every weight of a model, beside what untrained weights of its shape read.

    Parameters
    ----------
    model : torch.nn.Module
    rules : Rules, optional
        How kernels become matrices, and which layers are counted.
    scheme : {"iid", "orthogonal"}
        How the weights started, for the baseline (`depthrank.baselines`).
    method : {"auto", "svd", "gram"}
        See `spectra_of`.

    Returns
    -------
    list of dict
        A row for every parameter: `name`, `kind`, `role`, `counted`, `shape`, `matrix_shape`,
        `blocks`, `max_rank`; the four measures of `measures_of`; `spectral_norm`,
        `frobenius_norm`; `baseline`, `ratio`, `excess`, each a dict over the measures; `status`
        ("measured", "skipped", "failed") and `reason`.
    """
    layers, skipped = find_layers(model, rules)
    stacks = [layer.stack() for layer in layers]
    rows = []
    for layer, stack, s in zip(layers, stacks, spectra_of(stacks, method=method), strict=True):
        rows.append(_row(layer, tuple(stack.shape), s, scheme))
    for one in skipped:
        row = dict.fromkeys(rows[0])
        told = {"name": one.name, "shape": list(one.shape), "counted": False}
        rows.append(row | told | {"status": "skipped", "reason": one.reason})
    return rows


def _row(layer: Layer, shape: tuple[int, ...], s: np.ndarray, scheme: str) -> dict[str, Any]:
    blocks, m, n = shape
    fine = bool(np.isfinite(s).all())
    found, flat = measures_of(s), baseline(m, n, blocks=blocks, scheme=scheme)
    return {
        "name": layer.name,
        "kind": layer.kind,
        "role": layer.role,
        "counted": layer.counted,
        "shape": list(layer.shape),
        "matrix_shape": [m, n],
        "blocks": blocks,
        "max_rank": blocks * min(m, n),
        **found,
        "spectral_norm": float(s[0]),
        "frobenius_norm": float(np.sqrt(np.sum(s * s))),
        "baseline": flat,
        "ratio": {key: found[key] / flat[key] for key in found},
        "excess": {key: found[key] - flat[key] for key in found},
        "status": "measured" if fine else "failed",
        "reason": None if fine else "holds NaN or infinity",
    }


@torch.no_grad()
def end_to_end_matrix(model: nn.Module) -> Any:
    """Return the product of a model's linear layers in order of registration, [out, in], float64.

    For a linear network it is the function itself, apart from biases (exact). With activations
    between the layers it is the published "algebraic product" and not the function: use the
    Jacobian then. A stack of networks (`depthrank.networks.stacked`) gives [seeds, out, in].

    Raises
    ------
    DepthrankError
        If there are no linear layers, others beside them, or neighbours that do not fit.
    """
    weights = getattr(model, "weights", None)
    if not isinstance(weights, nn.ParameterList):
        known = (nn.Linear, *(type(m) for m in model.modules() if not list(m.parameters(False))))
        linear = [m for m in model.modules() if isinstance(m, nn.Linear)]
        others = [
            type(m).__name__
            for m in model.modules()
            if list(m.parameters(recurse=False)) and not isinstance(m, known)
        ]
        if not linear or others:
            what = f"holds {', '.join(sorted(set(others)))}" if others else "has no linear layers"
            raise DepthrankError(
                f"{type(model).__name__} {what}; an end-to-end product needs linear layers alone. "
                "Take the rank of the Jacobian instead."
            )
        weights = [m.weight for m in linear]
    product = weights[0].double()
    for W in list(weights)[1:]:
        if W.shape[-1] != product.shape[-2]:
            raise DepthrankError(
                f"a layer of shape {tuple(W.shape)} follows one with {product.shape[-2]} outputs; "
                "the linear layers are not one chain."
            )
        product = W.double() @ product
    return product
