"""Sphinx configuration. `make docs` builds strictly: a warning fails."""

import sys
from pathlib import Path

import depthrank

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from figures import limits_by_depth  # noqa: E402
from result_figures import draw_results  # noqa: E402

project = "depthrank"
author = "The depthrank authors"
release = version = depthrank.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
]
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_mock_imports = ["torch"]  # documented without the extra
autosummary_generate = False  # one page a module, written below
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings say more: shapes, units, conventions
numpydoc_show_class_members = False

html_theme = "furo"
html_title = f"depthrank {release}"

# The API pages, grouped in the order things flow. A group shows the modules that exist.
GROUPS = {
    "What is seen": ("observations", "files", "patterns", "graph"),
    "How it starts": ("factors", "initialization"),
    "How it moves": (
        "dynamics.flow",
        "dynamics.descent",
        "dynamics.trajectory",
        "dynamics.problem",
    ),
    "What came out": ("spectra", "weights", "baselines", "reshaping"),
    "What it means": ("theory", "plasticity"),
    "Filling a table": ("completion",),
    "Studies and sweeps": ("studies", "sweeps"),
    "Networks": (
        "networks.layers",
        "networks.measures",
        "networks.tracker",
        "networks.callbacks",
        "networks.bridge",
        "networks.activations",
        "networks.functions",
        "networks.clock",
        "networks.models",
        "networks.datasets",
        "networks.protocols",
        "networks.remedies",
        "networks.stacked",
        "networks.processor",
    ),
    "Reports": ("report",),
    "Ground": ("errors", "seeds", "memory"),
}


def _exists(name: str) -> bool:
    """Tell whether a module is there, without importing it: networks need an extra."""
    place = Path(depthrank.__file__).parent.joinpath(*name.split("."))
    return place.is_dir() or place.with_suffix(".py").is_file()


def write_api_pages() -> None:
    """Write docs/api/generated: groups.inc, the index by group, and a page per module."""
    folder = HERE / "api" / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    index: list[str] = []
    for title, names in GROUPS.items():
        names = tuple(name for name in names if _exists(name))
        if names:
            index += [title, "-" * len(title), "", ".. toctree::", "   :maxdepth: 1", ""]
            index += [f"   depthrank.{name} <generated/{name}>" for name in names] + [""]
        for name in names:
            heading = f"depthrank.{name}"
            page = [heading, "=" * len(heading), "", f".. automodule:: {heading}", "   :members:"]
            (folder / f"{name}.rst").write_text("\n".join(page) + "\n")
    (folder / "groups.inc").write_text("\n".join(index) + "\n")


write_api_pages()
limits_by_depth()
draw_results()
