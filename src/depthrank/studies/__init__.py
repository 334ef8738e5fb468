"""The results of the paper, one module each: a setting, a run, a figure, claims with verdicts.

`STUDIES` lists them in the order in which they read best; `depthrank reproduce` runs them.
"""

from depthrank.studies import (
    certified,
    connecting,
    coupling,
    depth,
    gaussian,
    limit,
    networks,
    no_help,
    optimizers,
    plasticity,
    recovery,
    remedies,
    small_start,
    two_by_two,
    warm_two_by_two,
)
from depthrank.studies.claim import Claim
from depthrank.studies.study import Data, Study

__all__ = ["STUDIES", "Claim", "Data", "Study"]

STUDIES: tuple[Study, ...] = (
    coupling.STUDY,
    two_by_two.STUDY,
    limit.STUDY,
    small_start.STUDY,
    depth.STUDY,
    gaussian.STUDY,
    recovery.STUDY,
    connecting.STUDY,
    plasticity.STUDY,
    remedies.STUDY,
    warm_two_by_two.STUDY,
    certified.STUDY,
    optimizers.STUDY,
    no_help.STUDY,
    networks.STUDY,
)
