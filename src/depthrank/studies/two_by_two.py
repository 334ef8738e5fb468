"""The 2 x 2 problem at depth 2: what connected and disconnected observations lead to."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from depthrank import theory
from depthrank.dynamics.members import factors_of, products
from depthrank.initialization import AlphaM
from depthrank.observations import Observations
from depthrank.product_spectrum import product_singular_values
from depthrank.studies import drawing
from depthrank.studies.claim import Claim, about, above, below
from depthrank.studies.simulate import course, flows
from depthrank.studies.study import Data, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAN = np.nan
DIAGONAL = np.array([[1.0, NAN], [NAN, 0.8]])
ROW = np.array([[1.0, 1.0], [NAN, NAN]])
NO_22 = np.array([[1.0, 1.0], [1.0, NAN]])
NO_21 = np.array([[1.0, 1.0], [NAN, 1.0]])
ALL = np.array([[1.0, 0.6], [0.6, 1.0]])
DIVERGING = np.array([[NAN, 1.0], [1.0, 0.0]])
CONNECTED = {"row": ROW, "no-22": NO_22, "no-21": NO_21}


@dataclass(frozen=True)
class Settings:
    """Starts: alpha on the diagonal of both factors, alpha/m off it."""

    alphas: tuple[float, ...] = (1.0, 1e-1, 1e-2, 1e-3)
    ms: tuple[float, ...] = (1.1, 2.0, 10.0, np.inf)
    small: tuple[float, ...] = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4)
    times: tuple[float, ...] = (2.0, 4.0, 8.0, 16.0, 32.0, 64.0)


def run(settings: Settings, seed: int) -> Data:
    """Simulate every pattern; `seed` plays no role, nothing is random."""
    cells = [(a, m) for a in settings.alphas for m in settings.ms]
    starts = [AlphaM(a, m)((2, 2, 2)) for a, m in cells]
    shape = len(settings.alphas), len(settings.ms)
    diagonal, everything = (
        flows(Observations.from_dense(target), starts) for target in (DIAGONAL, ALL)
    )
    exact = [theory.two_by_two(DIAGONAL, alpha=a, m=m).matrix for a, m in cells]
    error = np.abs(products(diagonal) - np.array(exact)).max(axis=(1, 2))
    data: Data = {
        "alphas": np.array(settings.alphas),
        "ms": np.array(settings.ms),
        "small": np.array(settings.small),
        "diagonal_error": error.reshape(shape),
        "diagonal_stable_rank": diagonal["stable_rank"].values.reshape(shape),
        "all_error": np.abs(products(everything) - ALL).max(),
        "unfinished": sum(int((d["stopped_by"] != "fitted").sum()) for d in (diagonal, everything)),
    }
    for name, target in CONNECTED.items():
        small = [AlphaM(a, 2.0)((2, 2, 2)) for a in settings.small]
        found = flows(Observations.from_dense(target), small)
        data[name] = np.array([product_singular_values(f)[1] for f in factors_of(found)])
        known = [theory.two_by_two(target, alpha=a, m=2.0) for a in settings.small]
        data[f"{name}_bound"] = np.array([k.sigma_2_bound or NAN for k in known])
        data[f"{name}_exponent"] = known[-1].sigma_2_exponent
        data["unfinished"] += int((found["stopped_by"] != "fitted").sum())
    data |= _divergence(settings)
    return data


def _divergence(settings: Settings) -> Data:
    """Follow the problem whose zero-loss points of positive determinant lie at infinity."""
    seen = Observations.from_dense(DIVERGING)
    states = course(seen, [AlphaM(0.5, 2.0)((2, 2, 2))], settings.times)
    rows = []
    for state in states:
        X = state[0][1] @ state[0][0]
        loss = 0.5 * float(np.sum((X[seen.rows, seen.cols] - seen.values) ** 2))
        s = product_singular_values(state[0])
        norm, second = theory.norm_divergence_bounds(loss)
        # With sigma_2 below rounding the determinant's sign is lost, and with it the theorem.
        if s[1] > 1e-9 * s[0]:
            rows.append((abs(X[0, 0]), norm, s[1], second))
    return {"diverging": np.array(rows)}


def slope(data: Data, name: str) -> float:
    """Exponent of sigma_2 in alpha between the two smallest alphas a decade apart."""
    return float(
        np.log10(data[name][-3] / data[name][-1]) / np.log10(data["small"][-3] / data["small"][-1])
    )


def figure(data: Data) -> "Figure":
    """Disconnected: stable rank over alpha. Connected: sigma_2 over alpha."""
    fig, axes = drawing.panels(3)
    for k, m in enumerate(data["ms"]):
        colour = ("#c6dbef", "#6baed6", "#2171b5", "#08306b")[k % 4]
        axes[0].semilogx(
            data["alphas"],
            data["diagonal_stable_rank"][:, k],
            "o-",
            color=colour,
            label=f"m = {m:g}",
        )
    drawing.title(axes[0], "diagonal observed (disconnected)", "alpha", "stable rank of the limit")
    drawing.legend(axes[0])
    axes[0].set_ylim(0.95, 2.05)
    names = {"row": "first row", "no-22": "all but (2,2)", "no-21": "all but (2,1)"}
    for (name, label), mark in zip(names.items(), "osD", strict=True):
        axes[1].loglog(data["small"], data[name], f"{mark}-", label=label)
    drawing.title(axes[1], "connected", "alpha", "second singular value of the limit")
    drawing.legend(axes[1])
    found = data["diverging"]
    loss_side = found[:, 1]
    axes[2].loglog(loss_side, found[:, 0], "o-", label="simulated")
    axes[2].loglog(loss_side, loss_side, "--", color=drawing.GREY, label="bound")
    drawing.title(
        axes[2], "no finite rank-one completion", "lower bound, growing with time", "|X_11|"
    )
    drawing.legend(axes[2])
    return fig


def claims(data: Data) -> list[Claim]:
    """Decide the claims."""
    ranks, diverging = data["diagonal_stable_rank"], data["diverging"]
    result = [
        below(
            "two-by-two/disconnected-limit",
            "Diagonal observed, depth 2: the limit is that of the formula (X_12 = 2m/(m^2+1) "
            "sqrt(w_1 w_2)); largest error of an entry over all alpha and m.",
            data["diagonal_error"].max() if data["unfinished"] == 0 else np.nan,
            1e-6,
        ),
        below(
            "two-by-two/disconnected-alpha",
            "That limit does not depend on alpha: spread of the stable rank over alpha from 1e-3 "
            "to 1.",
            np.ptp(ranks, axis=0).max(),
            1e-6,
        ),
        about(
            "two-by-two/disconnected-diagonal-start",
            "From a diagonal start (m = inf) it has the full stable rank of diag(1, 0.8).",
            ranks[0, -1],
            1.64,
            1e-6,
        ),
        below(
            "two-by-two/rank-is-not-stable-rank",
            "'High rank when disconnected' is about the rank: near m = 1 the stable rank is close "
            "to one even so (stable rank at m = 1.1).",
            ranks[:, 0].max(),
            1.01,
        ),
        below(
            "two-by-two/row-bound",
            "First row observed: sigma_2 never exceeds alpha^2 (1 + 1/m^2) (largest ratio of "
            "sigma_2 to the bound).",
            (data["row"] / data["row_bound"]).max(),
            1.0,
        ),
    ]
    for name, missing in (("no-22", "(2,2)"), ("no-21", "(2,1)")):
        result.append(
            about(
                f"two-by-two/exponent-{name}",
                f"All but {missing} observed: low rank only as alpha -> 0, sigma_2 of the limit "
                "falling like this power of alpha (fitted from 1e-3 to 1e-4).",
                slope(data, name),
                data[f"{name}_exponent"],
                0.02,
            )
        )
    result += [
        below(
            "two-by-two/all-observed",
            "All four entries observed: the limit is the target whatever alpha and m.",
            data["all_error"],
            1e-6,
        ),
        above(
            "two-by-two/divergence",
            "With entries 1, 1, 0 and (1,1) missing there is no rank-one completion: the norm "
            "diverges, |X_11| stays above (1 - sqrt(loss))^2/sqrt(2 loss) (smallest ratio).",
            (diverging[:, 0] / diverging[:, 1]).min(),
            1.0,
        ),
    ]
    return result


STUDY = Study(
    name="two-by-two",
    title="Two by two, two factors",
    source="Theorem 3.1",
    summary="The smallest tables. With two factors and the two diagonal entries observed "
    "(disconnected), the result keeps rank two however small the start. With a row, or "
    "three entries (connected), the second singular value vanishes as the start shrinks.",
    caption="Left: disconnected, the limit ignores alpha but not m. Middle: connected, the second"
    " singular value falls with a known power of alpha. Right: the breakdown, three "
    "entries with no rank-one completion; the solution runs to infinity.",
    quick=Settings(),
    full=Settings(
        alphas=(1.0, 3e-1, 1e-1, 3e-2, 1e-2, 1e-3, 1e-4, 1e-5),
        ms=(1.01, 1.1, 1.5, 2.0, 5.0, 10.0, 100.0, np.inf),
    ),
    run=run,
    figure=figure,
    claims=claims,
)
