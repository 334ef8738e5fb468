"""A forecast before training goes on: is plasticity at stake, and what to do about it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from depthrank.errors import DepthrankError
from depthrank.factors import Factors, check_factors, end_to_end
from depthrank.graph import connectivity
from depthrank.observations import Observations
from depthrank.spectra import effective_rank, singular_values, stable_rank
from depthrank.theory import RigidityBound, certificate

__all__ = ["ACTIONS", "PlasticityReport", "commutation_defect", "plasticity_report"]

ACTIONS = ("resume", "add depth", "shrink", "start over")

FORESEEN = 0.005
"""New cells that the model foresees this well (relative residual) ask for little change."""

NEAR = 0.4
"""Where nothing new is joined and the new cells are foreseen this well, shrinking does best."""

_COMMUTES = 1e-6
_BALANCE = 1e-2  # imbalance, relative to sigma_min^(2/L), that the bound is still quoted with


@dataclass(frozen=True, eq=False, kw_only=True)
class PlasticityReport:
    """What is known of a state and its new data before training.

    Attributes
    ----------
    action : str
        One of "resume", "add depth", "shrink", "start over".
    reasons : list of str
        Why, in sentences.
    predicted_loss : float
        Forecast of the relative reconstruction error that resuming would leave, 0 to 1: the
        residual on the new cells, which stands for that on all others that were never seen. A
        heuristic; its record is in the docs.
    components_before, components_after : int
        Connected components of what is seen, before and with the new cells.
    connects : bool
        Whether the new cells join components (or rows and columns without any cell).
    new_residual : float
        Relative residual of the present model on the new cells, in the root mean square of all.
    n_new : int
        Cells that are new or have another value.
    depth : int
    stable_rank, effective_rank : float
        Of the present end-to-end matrix.
    lazy : bool
        Whether the rigidity theorem traps the state: residual below the smallest singular value.
    bound : RigidityBound or None
        Its constants; None where the theorem does not apply, `bound_reason` says why.
    bound_reason : str
    stable_rank_bound : float
        Proved lower bound on the stable rank after resuming; 1 where nothing is proved.
    commutes : bool
        Whether old state and new residual share their singular vectors, and the pattern keeps them:
        then warm and cold limits agree for balanced starts that commute too.
    commutation_defect : float
        0 if so; else the largest part that leaves the shared singular basis.
    """

    action: str
    reasons: list[str]
    predicted_loss: float
    components_before: int
    components_after: int
    connects: bool
    new_residual: float
    n_new: int
    depth: int
    stable_rank: float
    effective_rank: float
    lazy: bool
    bound: RigidityBound | None
    bound_reason: str
    stable_rank_bound: float
    commutes: bool
    commutation_defect: float


def plasticity_report(
    model_or_factors: Any, observations: Observations, new: Observations
) -> PlasticityReport:
    """Say what new data will meet in a trained state, before any training.

    Parameters
    ----------
    model_or_factors : factors, Trajectory, WarmStart or fitted DeepMatrixCompletion
        The present state.
    observations : Observations
        What it was fitted to, [m, n]. For a DeepMatrixCompletion in the units of the table.
    new : Observations
        Further cells of the same shape and labels; where both have a cell the newest counts.

    Returns
    -------
    PlasticityReport

    Raises
    ------
    DepthrankError
        If shapes differ, or the factors do not fit.

    Notes
    -----
    **Label.** `bound` is rigorous for balanced factors, `commutes` exact up to rounding; `action`
    and `predicted_loss` are heuristics, checked against outcomes by `depthrank reproduce`.
    **Source.** Theorems 4.2 and 4.3 of Shin & Yun (ICLR 2026), at any depth.
    """
    factors, prepare = _state(model_or_factors)
    before, fresh = prepare(observations), prepare(new)
    chain = check_factors(factors, before.shape)
    if not fresh.n_observed:
        raise DepthrankError("new holds no observed cell; there is nothing to forecast.")
    after = before.union(fresh)
    changed = _changed(before, fresh)
    X = np.asarray(end_to_end(chain), dtype=np.float64)
    error = X[changed.rows, changed.cols] - changed.values
    size = after.rms or 1.0
    residual = float(np.sqrt(np.mean(error**2)) / size) if error.size else 0.0
    graphs = connectivity(before), connectivity(after)
    connects = graphs[1].n_components < graphs[0].n_components or bool(
        len(graphs[1].isolated_rows) < len(graphs[0].isolated_rows)
        or len(graphs[1].isolated_cols) < len(graphs[0].isolated_cols)
    )
    bound, why = _bound(chain, after)
    s = singular_values(X)
    defect = commutation_defect(X, after)
    facts: dict[str, Any] = {
        "components_before": graphs[0].n_components,
        "components_after": graphs[1].n_components,
        "connects": connects,
        "new_residual": residual,
        "n_new": changed.n_observed,
        "depth": len(chain),
        "stable_rank": float(stable_rank(X)),
        "effective_rank": float(effective_rank(X)),
        "lazy": bound is not None and bound.certified,
        "bound": bound,
        "bound_reason": why,
        "stable_rank_bound": 1.0 if bound is None else bound.stable_rank_lower,
        "commutes": defect < _COMMUTES,
        "commutation_defect": defect,
        "predicted_loss": 0.0 if defect < _COMMUTES else min(residual, 1.0),
    }
    action, reasons = _advice(facts, bool(s[0] > 0))
    return PlasticityReport(action=action, reasons=reasons, **facts)


def _state(given: Any) -> tuple[Sequence[Any], Any]:
    """Return factors, and what turns observations into their units."""
    model = getattr(given, "_model", None)
    if model is not None:
        return model.factors, model.preparation.apply
    return getattr(given, "factors", given), lambda observations: observations


def _changed(before: Observations, new: Observations) -> Observations:
    """Return the new cells, and known ones whose value has changed."""
    n = before.shape[1]
    keys, known = new.rows * n + new.cols, before.rows * n + before.cols
    at = np.minimum(np.searchsorted(known, keys), max(len(known) - 1, 0))
    if not len(known):
        return new
    same = (known[at] == keys) & (before.values[at] == new.values)
    return new.select(~same)


def _bound(factors: Factors, after: Observations) -> tuple[RigidityBound | None, str]:
    if len(factors) < 2:
        return None, "at depth 1 unseen cells never move"
    try:
        bound = certificate(factors, after, tolerance=_BALANCE)
    except DepthrankError as error:
        return None, str(error)
    return bound, bound.reason


def commutation_defect(X: np.ndarray, observations: Observations) -> float:
    """Measure how far the flow from X on these observations leaves the singular vectors of X.

    Parameters
    ----------
    X : array, [m, n]
        The end-to-end matrix.
    observations : Observations
        What is seen from now on.

    Returns
    -------
    float
        0 if one pair of singular bases diagonalises X and the residual, and the pattern keeps what
        they span: balanced flows then keep the bases. Otherwise a relative part outside. Exact up
        to rounding.
    """
    mask = observations.mask()
    R = np.zeros(observations.shape)
    R[mask] = X[mask] - observations.to_dense(fill=0.0)[mask]
    scale = float(np.linalg.norm(R))
    if scale <= 1e-12 * max(float(np.linalg.norm(X)), np.finfo(float).tiny):
        return 0.0
    # Shared bases make X^T R symmetric: the cheap half of the test settles most tables.
    turned = X.T @ R
    size = float(np.linalg.norm(X)) or 1.0
    skew = float(np.linalg.norm(turned - turned.T)) / (size * scale)
    if skew > _COMMUTES:
        return skew
    # A generic combination has the joint basis, where X alone may be degenerate.
    U, _, Vt = np.linalg.svd(X + (np.sqrt(2) / 7) * R, full_matrices=False)
    parts = np.stack([X, R])
    inside = np.einsum("ik,pij,kj->pk", U, parts, Vt)
    gaps = np.linalg.norm(parts - np.einsum("ik,pk,kj->pij", U, inside, Vt), axis=(1, 2))
    sizes = np.linalg.norm(parts, axis=(1, 2))
    worst = float(np.max(gaps / np.where(sizes > 0, sizes, 1.0)))
    # Modes that nothing tells apart count as one; each group must be kept by the pattern, which
    # may tell further modes apart.
    keys = (inside / np.maximum(sizes, np.finfo(float).tiny)[:, None]).T
    while worst <= _COMMUTES:
        _, group = np.unique(np.round(keys, 8), axis=0, return_inverse=True)
        seen = []
        for g in range(group.max() + 1):
            chosen = group.ravel() == g
            part = np.where(mask, U[:, chosen] @ Vt[chosen], 0.0)
            diagonal = np.einsum("ik,ij,kj->k", U, part, Vt)
            gap = float(np.linalg.norm(part - (U * diagonal) @ Vt))
            worst = max(worst, gap / float(np.sqrt(chosen.sum())))
            if worst > _COMMUTES:
                return worst  # the verdict is clear, and tables may be large
            seen.append(diagonal)
        finer = np.column_stack([keys, *seen])
        if len(np.unique(np.round(finer, 8), axis=0)) == group.max() + 1:
            break
        keys = finer
    return worst


def _advice(facts: dict[str, Any], moved: bool) -> tuple[str, list[str]]:
    """Return the action and its reasons."""
    depth, residual = facts["depth"], facts["new_residual"]
    reasons = [_connection(facts), _state_sentence(facts)]
    if depth == 1:
        reasons.append("At depth 1 unseen cells never move, whatever is seen: add depth.")
        return "add depth", reasons
    if facts["commutes"]:
        reasons.append(
            "Old and new observations commute: warm and cold training end alike, so resuming costs "
            "nothing."
        )
        return "resume", reasons
    foreseen = f"The new cells are foreseen to {100 * residual:.3g} % of the data's size"
    if not moved or residual <= FORESEEN:
        reasons.append(f"{foreseen}: little has to change, and resuming is fastest.")
        return "resume", reasons
    if not facts["connects"] and residual < NEAR:
        reasons.append(
            f"{foreseen}, and they join nothing that was apart: the state points the right way but "
            "is of too high a rank; shrinking it keeps the way and frees the rank."
        )
        return "shrink", reasons
    reasons.append(
        f"{foreseen}: what the model says of cells it has not seen is wrong by about as much, and "
        "resuming corrects the new cells more than the others."
    )
    return "start over", reasons


def _connection(facts: dict[str, Any]) -> str:
    before, after = facts["components_before"], facts["components_after"]
    if before == after == 1:
        text = "What was seen is connected"
        return text + (", and new rows or columns join it." if facts["connects"] else " already.")
    if after < before:
        return f"What was seen lies in {before} unconnected parts; the new cells leave {after}."
    return f"What is seen lies in {after} unconnected parts, also with the new cells."


def _state_sentence(facts: dict[str, Any]) -> str:
    bound = facts["bound"]
    ranks = f"The state has stable rank {facts['stable_rank']:.3g}"
    if bound is None:
        return f"{ranks}; no bound applies: {facts['bound_reason']}."
    if bound.certified:
        return (
            f"{ranks} and is in the lazy regime ({bound.reason}): after resuming the stable rank "
            f"is at least {bound.stable_rank_lower:.4g}, at any depth."
        )
    return f"{ranks}; it is not in the lazy regime: {bound.reason}."
