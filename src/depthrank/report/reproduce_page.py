"""The page of `depthrank reproduce`: the paper's results, claim by claim, in one HTML file."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from depthrank._version import __version__
from depthrank.report import html

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from depthrank.studies.claim import Claim
    from depthrank.studies.study import Study

__all__ = ["Outcome", "number", "reproduce_page"]

_WORDS = (
    (
        "The problem",
        "A table with holes is written as a product of several square matrices (factors). They "
        "are trained by gradient descent on the squared error of the cells that are seen; the "
        "number of factors is the depth. Nothing restricts the rank, yet what comes out in the "
        "unseen cells often has low rank. The paper asks when, and why.",
    ),
    (
        "Rank measures",
        "Stable rank (sum of squared singular values over the largest one squared) and effective "
        "rank (exponential of the entropy of the singular values) both lie between 1 and the size; "
        "near 1 the matrix is close to a rank-one matrix.",
    ),
    (
        "Start",
        "Unless said otherwise every factor starts with alpha on its diagonal and alpha/m off it; "
        "alpha is the scale of the start and m = inf means diagonal factors.",
    ),
    (
        "Connected",
        "Rows and columns are joined where a cell is seen. If that joins everything, the "
        "observations are connected; if it leaves separate parts, disconnected. A seen diagonal "
        "is as disconnected as possible.",
    ),
    (
        "Warm and cold",
        "A warm start goes on from weights trained on part of the data; a cold one starts afresh. "
        "Loss of plasticity: the warm start ends at a higher rank than the cold one.",
    ),
    (
        "Verdict",
        "Each claim was given an accepted interval before the run. It holds if the measured number "
        "lies in it; for averages over random draws, if the whole 95 % confidence interval does.",
    ),
)


@dataclass(frozen=True)
class Outcome:
    """One study after its run: claims, figure, seconds and the table it may have."""

    study: "Study"
    claims: "Sequence[Claim]"
    figure: "Figure"
    seconds: float
    table: tuple[list[str], list[list[str]]] | None = None


def reproduce_page(
    outcomes: Sequence[Outcome], *, mode: str, seed: int, seconds: float, missing: Sequence[str]
) -> str:
    """Return the page of a run.

    Parameters
    ----------
    outcomes : sequence of Outcome
        The studies that were run, in order.
    mode : str
        "quick" or "full".
    seed : int
        Root seed of the run.
    seconds : float
        How long it took.
    missing : sequence of str
        Names of studies that were asked for and not finished.

    Returns
    -------
    str
        HTML, with every figure inside.
    """
    claims = [claim for outcome in outcomes for claim in outcome.claims]
    failed = [claim for claim in claims if not claim.holds]
    sentences = [
        f"{len(claims) - len(failed)} of {len(claims)} claims hold."
        if failed
        else f"All {len(claims)} claims hold.",
        "Every number below was computed in this run, by simulating all factors of the product "
        "(where a claim goes beyond what can be simulated, from exact limits that the same run "
        "checks against simulation); what it is compared with comes from theory. Source of the "
        "theorems: Shin and Yun, Implicit Bias and Loss of Plasticity in Matrix Completion (ICLR "
        "2026).",
    ]
    body = [
        html.header("Depth, rank and plasticity: the results, measured", sentences),
        html.cards(
            [
                ("claims", str(len(claims))),
                ("hold", str(len(claims) - len(failed))),
                ("fail", str(len(failed))),
                ("setting", mode),
                ("seed", str(seed)),
                ("time", f"{seconds:.0f} s"),
            ]
        ),
        html.warnings(
            [f"Interrupted: {', '.join(missing)} did not finish." for _ in missing[:1]]
            + [f"Fails: {claim.statement}" for claim in failed]
        ),
        html.section("Words used", _terms()),
        html.section("At a glance", _overview(outcomes)),
        *(_study(outcome) for outcome in outcomes),
    ]
    return html.document("Depth, rank and plasticity", body, f"depthrank {__version__}")


def number(value: float) -> str:
    """Write a measured number for people."""
    if value == 0:
        return "0"
    return f"{value:.2e}" if abs(value) < 1e-3 or abs(value) >= 1e6 else f"{value:.6g}"


def measured(claim: "Claim") -> str:
    """Write what was measured, with its interval and number of draws."""
    shown = number(claim.measured)
    if claim.interval is not None:
        low, high = (number(end) for end in claim.interval)
        shown += f" ({low} to {high}, {claim.n_seeds} draws)"
    return shown


def _terms() -> str:
    rows = "".join(
        f"<tr><th>{html.text(word)}</th><td>{html.text(meaning)}</td></tr>"
        for word, meaning in _WORDS
    )
    return f'<table class="terms"><tbody>{rows}</tbody></table>'


def _overview(outcomes: Sequence[Outcome]) -> str:
    rows = []
    for outcome in outcomes:
        good = sum(claim.holds for claim in outcome.claims)
        state = "holds" if good == len(outcome.claims) else "fails"
        name = html.text(outcome.study.name)
        rows.append(
            f'<tr><th><a href="#{name}">{html.text(outcome.study.title)}</a></th>'
            f"<td>{html.text(outcome.study.source)}</td>"
            f'<td class="{state}">{good} of {len(outcome.claims)}</td></tr>'
        )
    head = "<thead><tr><th>result</th><th>source</th><th>claims that hold</th></tr></thead>"
    return f'<div class="wide"><table>{head}<tbody>{"".join(rows)}</tbody></table></div>'


def _study(outcome: Outcome) -> str:
    study = outcome.study
    rows = "".join(
        f'<tr><th id="{html.text(claim.id)}">{html.text(claim.statement)}</th>'
        f"<td>{html.text(measured(claim))}</td><td>{html.text(claim.expected)}</td>"
        f'<td class="{claim.verdict}">{claim.verdict}</td></tr>'
        for claim in outcome.claims
    )
    head = "".join(f"<th>{name}</th>" for name in ("claim", "measured", "expected", "verdict"))
    picture = html.picture(outcome.figure, study.caption, "svg")
    if outcome.table is not None:
        picture += html.table(outcome.table[1], outcome.table[0])
    return (
        f'<section id="{html.text(study.name)}"><h2>{html.text(study.title)}</h2>'
        f"<p>{html.text(study.summary)}</p>"
        f'<p class="source">{html.text(study.source)}; {outcome.seconds:.0f} s.</p>{picture}'
        f'<div class="wide"><table class="claims"><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div></section>"
    )
