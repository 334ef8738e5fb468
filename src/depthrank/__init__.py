"""Matrix completion by deep matrix factorisation: depth is the regulariser.

The public surface, grouped as in the documentation. Names are looked up when first used, so that
importing the package costs milliseconds and JAX is loaded only by what integrates or trains.

What is seen
    Observations, read, patterns, connectivity
How it starts
    AlphaM, Gaussian, TiedGaussian, Identity, Orthogonal, Balanced
How it moves
    flow, flow_batch, descend, Trajectory
What came out
    end_to_end, imbalance, singular_values, stable_rank, effective_rank, numerical_rank, spectra
What it means
    limits, coupling, coupling_strength, theory, studies
More data arrive
    warm_start, plasticity_report, plasticity
Fill my table
    DeepMatrixCompletion
Ten thousand of them
    sweep, sweeps
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from depthrank._version import __version__

if TYPE_CHECKING:
    from depthrank import patterns, plasticity, spectra, studies, sweeps, theory
    from depthrank.completion.estimator import DeepMatrixCompletion
    from depthrank.dynamics.batch import flow_batch
    from depthrank.dynamics.descent import descend
    from depthrank.dynamics.flow import flow
    from depthrank.dynamics.trajectory import Trajectory
    from depthrank.errors import DepthrankError
    from depthrank.factors import end_to_end, imbalance
    from depthrank.files import read
    from depthrank.graph import connectivity
    from depthrank.initialization import (
        AlphaM,
        Balanced,
        Gaussian,
        Identity,
        Orthogonal,
        TiedGaussian,
    )
    from depthrank.observations import Observations
    from depthrank.plasticity import plasticity_report, warm_start
    from depthrank.spectra import effective_rank, numerical_rank, singular_values, stable_rank
    from depthrank.sweeps.running import sweep
    from depthrank.theory import coupling, coupling_strength, limits

__all__ = [
    "AlphaM",
    "Balanced",
    "DeepMatrixCompletion",
    "DepthrankError",
    "Gaussian",
    "Identity",
    "Observations",
    "Orthogonal",
    "TiedGaussian",
    "Trajectory",
    "__version__",
    "connectivity",
    "coupling",
    "coupling_strength",
    "descend",
    "effective_rank",
    "end_to_end",
    "flow",
    "flow_batch",
    "imbalance",
    "limits",
    "numerical_rank",
    "patterns",
    "plasticity",
    "plasticity_report",
    "read",
    "singular_values",
    "spectra",
    "stable_rank",
    "studies",
    "sweep",
    "sweeps",
    "theory",
    "warm_start",
]

# Where each name lives. A function may not share its name with a module of this folder: importing
# that module would put the module in the function's place. tests/test_surface.py holds the three
# lists of this file together.
_MODULES = ("patterns", "plasticity", "spectra", "studies", "sweeps", "theory")
_HOMES = {
    "completion.estimator": ("DeepMatrixCompletion",),
    "dynamics.batch": ("flow_batch",),
    "dynamics.descent": ("descend",),
    "dynamics.flow": ("flow",),
    "dynamics.trajectory": ("Trajectory",),
    "errors": ("DepthrankError",),
    "factors": ("end_to_end", "imbalance"),
    "files": ("read",),
    "graph": ("connectivity",),
    "initialization": (
        "AlphaM",
        "Balanced",
        "Gaussian",
        "Identity",
        "Orthogonal",
        "TiedGaussian",
    ),
    "observations": ("Observations",),
    "plasticity": ("plasticity_report", "warm_start"),
    "spectra": ("effective_rank", "numerical_rank", "singular_values", "stable_rank"),
    "sweeps.running": ("sweep",),
    "theory": ("coupling", "coupling_strength", "limits"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

# Hidden from type checkers, which would otherwise take any misspelt name for a real one.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Load a public name at its first use (PEP 562)."""
        if name in _MODULES:
            return import_module(f"depthrank.{name}")
        if name not in _HOME_OF:
            raise AttributeError(f"module 'depthrank' has no attribute {name!r}")
        value = getattr(import_module(f"depthrank.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return list(__all__)
