"""Matrix completion by deep matrix factorisation: depth is the regulariser."""

from depthrank._version import __version__

__all__ = ["__version__"]
