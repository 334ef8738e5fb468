"""The shape of the source tree: imports run downward, heavy packages stay out, files stay short."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import depthrank

ROOT = Path(depthrank.__file__).parent

# The floors of the house, lowest first. A module may import from its own floor and those below.
LAYERS: tuple[frozenset[str], ...] = (
    frozenset(["_version", "arrays", "errors", "memory", "seeds", "source"]),
    frozenset(["conversion", "coordinates", "files", "frames", "observations"])
    | frozenset(["factors", "patterns", "product_spectrum", "spectra", "truths", "weights"])
    | frozenset(["baselines", "checkpoints", "reshaping"]),
    frozenset(["graph", "initialization", "theory"]),
    frozenset({"dynamics"}),
    frozenset({"plasticity"}),
    frozenset(["completion", "networks", "studies", "sweeps"]),
    frozenset({"report"}),
    frozenset({"__main__", "cli"}),
)
# Imports that climb, inside a function, each with its reason: (module, what it imports).
CLIMBING = {
    ("depthrank.dynamics.trajectory", "depthrank.report.figures"): "a trajectory plots itself",
    ("depthrank.networks.tracker", "depthrank.report.network_figures"): "a tracker plots itself",
}
# NumPy and SciPy only: these floors must work, and be quick to import, where JAX is not wanted.
WITHOUT_JAX = LAYERS[0] | LAYERS[1] | LAYERS[2]
HEAVY = ("jax", "matplotlib", "pandas", "polars", "pyarrow", "sklearn", "torch", "xarray")

MAX_LINES = 400
LONG_FILES = {
    "observations.py": "one class: constructors and set operations share its invariants",
}
MAX_BODY = 60
_CLAIMS = (
    "connecting",
    "coupling",
    "no_help",
    "plasticity",
    "small_start",
    "two_by_two",
    "warm_two_by_two",
)
LONG_FUNCTIONS: dict[str, str] = {
    f"depthrank.studies.{name}.claims": "a list: one claim after another, a sentence and a number"
    for name in _CLAIMS
}


def modules() -> dict[str, Path]:
    """Every module of the package, by its dotted name."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = ["depthrank", *path.relative_to(ROOT).with_suffix("").parts]
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def is_type_checking(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and node.test.id == "TYPE_CHECKING"
    )


def walk(node: ast.AST, *, functions: bool) -> Iterator[ast.AST]:
    """Walk what is executed; with functions=False only what the import itself executes."""
    for child in ast.iter_child_nodes(node):
        if is_type_checking(child):
            continue
        if not functions and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        yield child
        yield from walk(child, functions=functions)


def home(package: str, name: str) -> str:
    """Return the module that `from package import name` depends on."""
    if f"{package}.{name}" in MODULES:
        return f"{package}.{name}"
    if package == "depthrank" and name in depthrank._HOME_OF:
        return f"depthrank.{depthrank._HOME_OF[name]}"
    return package


def imports(path: Path, *, functions: bool) -> set[str]:
    """Modules of the package that a file imports."""
    found: set[str] = set()
    for node in walk(ast.parse(path.read_text(encoding="utf-8")), functions=functions):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} is a relative import; spell it out"
            found |= {home(node.module or "", alias.name) for alias in node.names}
    return {name for name in found if name == "depthrank" or name.startswith("depthrank.")}


def floor(module: str) -> int:
    top = module.split(".")[1]
    for height, names in enumerate(LAYERS):
        if top in names:
            return height
    pytest.fail(f"{module} stands on no floor: place {top!r} in LAYERS")


BELOW_ROOT = sorted(MODULES.keys() - {"depthrank"})


@pytest.mark.parametrize("module", BELOW_ROOT)
def test_imports_run_downward(module: str) -> None:
    used = imports(MODULES[module], functions=True) - {"depthrank"}
    climbing = {(module, name) for name in used if floor(name) > floor(module)}
    assert climbing <= CLIMBING.keys()


def test_listed_climbs_are_made_and_only_inside_functions() -> None:
    for module, name in CLIMBING:
        assert name in imports(MODULES[module], functions=True)
        assert name not in imports(MODULES[module], functions=False)


def test_no_module_waits_for_itself() -> None:
    graph = {name: imports(path, functions=False) for name, path in MODULES.items()}
    assert graph["depthrank"] == {"depthrank._version"}
    order = list(TopologicalSorter(graph).static_order())  # raises CycleError
    assert len(order) == len(MODULES)


def test_layer_check_sees_imports_in_every_place(tmp_path: Path) -> None:
    source = tmp_path / "sample.py"
    source.write_text(
        "from typing import TYPE_CHECKING\n"
        "from depthrank import seeds, __version__\n"
        "if TYPE_CHECKING:\n    from depthrank import spectra\n"
        "class A:\n    import depthrank.factors\n"
        "def f():\n    from depthrank.errors import DepthrankError\n"
    )
    eager = {"depthrank", "depthrank.seeds", "depthrank.factors"}
    assert imports(source, functions=False) == eager
    assert imports(source, functions=True) == eager | {"depthrank.errors"}


def test_ground_floors_import_no_jax_and_no_frames() -> None:
    names = [name for name in BELOW_ROOT if name.split(".")[1] in WITHOUT_JAX]
    code = (
        f"import sys, importlib\nfor name in {names}: importlib.import_module(name)\n"
        f"print([m for m in {HEAVY} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("module", MODULES)
def test_every_module_says_what_it_is(module: str) -> None:
    assert ast.get_docstring(ast.parse(MODULES[module].read_text(encoding="utf-8")))


def test_files_stay_short() -> None:
    lengths = {
        path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path in MODULES.values()
    }
    assert {name for name, lines in lengths.items() if lines > MAX_LINES} == LONG_FILES.keys()


def test_functions_stay_short() -> None:
    """Signatures and docstrings do not count."""
    long = set()
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) is not None else node.body
                if body and (body[-1].end_lineno or 0) - body[0].lineno + 1 > MAX_BODY:
                    long.add(f"{module}.{node.name}")
    assert long == LONG_FUNCTIONS.keys()
