"""What a study is: settings, a run, a figure and claims."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from depthrank.studies.claim import Claim

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Data", "Study"]

Data = dict[str, Any]  # arrays by name


@dataclass(frozen=True, kw_only=True)
class Study:
    """One result of the paper, to be measured.

    Attributes
    ----------
    name : str
        As given to `depthrank reproduce`.
    title : str
    source : str
        The statement of Shin & Yun (ICLR 2026) it belongs to.
    summary : str
        What is asked and what comes out, for somebody who has read only the abstract.
    caption : str
        What the figure shows.
    quick, full : settings
        Frozen dataclasses of the study's module.
    run : callable
        (settings, seed) -> data; everything that is measured happens here.
    figure : callable
        data -> matplotlib Figure.
    claims : callable
        data -> list of Claim, all decided from the data of the run.
    table : callable, optional
        data -> (head, rows), numbers to read beside the figure.
    needs : str, optional
        An extra of the package; such a study runs only when it is named.
    """

    name: str
    title: str
    source: str
    summary: str
    caption: str
    quick: Any
    full: Any
    run: Callable[[Any, int], Data]
    figure: Callable[[Data], "Figure"]
    claims: Callable[[Data], list[Claim]]
    table: Callable[[Data], tuple[list[str], list[list[str]]]] | None = None
    needs: str | None = None
