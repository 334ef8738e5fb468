"""The public surface: what `import depthrank` offers, and what it costs."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import depthrank

ROOT = Path(depthrank.__file__).parent
HEAVY = (
    "diffrax",
    "equinox",
    "jax",
    "matplotlib",
    "optax",
    "pandas",
    "polars",
    "pyarrow",
    "sklearn",
    "torch",
    "xarray",
    "zarr",
)


def python(code: str) -> str:
    """Run code in an interpreter that has imported nothing yet."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def type_checking_names() -> set[str]:
    """Names that type checkers and editors are shown."""
    tree = ast.parse((ROOT / "__init__.py").read_text())
    blocks = [
        node.body
        for node in tree.body
        if isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
    ]
    return {
        alias.asname or alias.name
        for body in blocks
        for node in body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_the_three_lists_agree() -> None:
    loaded_lazily = {*depthrank._MODULES, *depthrank._HOME_OF}
    assert set(depthrank.__all__) - {"__version__"} == loaded_lazily
    assert type_checking_names() == loaded_lazily
    assert dir(depthrank) == depthrank.__all__


def test_no_function_shares_its_name_with_a_module() -> None:
    modules = {info.name for info in pkgutil.iter_modules([str(ROOT)])}
    assert modules.isdisjoint(depthrank._HOME_OF)
    assert modules.issuperset(depthrank._MODULES)


@pytest.mark.parametrize("name", sorted(depthrank._HOME_OF))
def test_each_name_is_what_its_home_calls_so(name: str) -> None:
    home = importlib.import_module(f"depthrank.{depthrank._HOME_OF[name]}")
    assert getattr(depthrank, name) is getattr(home, name)
    assert not isinstance(getattr(depthrank, name), ModuleType)


IMPORT_EVERYTHING = """
import importlib, pkgutil, depthrank
for module in pkgutil.walk_packages(depthrank.__path__, "depthrank."):
    if ".networks" not in module.name and not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""


def test_names_survive_the_import_of_every_module() -> None:
    """Importing a submodule binds its name on the package; it must not hide a function."""
    said = python(
        IMPORT_EVERYTHING + "from types import ModuleType\n"
        "for name in (*depthrank._MODULES, *depthrank._HOME_OF):\n"
        "    if isinstance(getattr(depthrank, name), ModuleType): print(name)\n"
    )
    assert said.split() == list(depthrank._MODULES)


def test_functions_named_after_their_subject_are_callable_whatever_is_imported() -> None:
    said = python(
        IMPORT_EVERYTHING + "import numpy as np\n"
        "from depthrank import Observations, connectivity, coupling, limits\n"
        "seen = Observations.from_mask(np.ones((3, 2)), [[1, 0], [0, 1], [0, 0]])\n"
        "print(connectivity(seen).n_components)\n"
        "print(coupling((np.eye(3, 2),), seen).shape)\n"
        "print(limits(depth=2, alpha=0.1, m=2.0, n_blocks=2).depth)\n"
    )
    assert said.split("\n")[:3] == ["2", "(2, 2)", "2"]


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'depthrank' has no attribute 'stable_rnak'"):
        depthrank.stable_rnak  # type: ignore[attr-defined]  # noqa: B018


def test_import_loads_nothing_heavy() -> None:
    said = python(
        "import sys, depthrank, depthrank as d\n"
        f"print([m for m in {(*HEAVY, 'numpy', 'scipy')} if m in sys.modules])"
    )
    assert said.strip() == "[]"


def test_import_takes_less_than_three_tenths_of_a_second() -> None:
    """Best of three; it takes milliseconds, so only a heavy import can bring it near the bound."""
    code = (
        "import time; t = time.perf_counter(); import depthrank; print(time.perf_counter() - t)\n"
    )
    assert min(float(python(code)) for _ in range(3)) < 0.3
