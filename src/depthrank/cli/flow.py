"""`depthrank flow`: integrate the gradient flow, or take the steps of an optimiser."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from depthrank.cli import console, inputs, options, problems
from depthrank.errors import DepthrankError

if TYPE_CHECKING:
    from depthrank.dynamics.trajectory import Trajectory
    from depthrank.initialization import Start

EXAMPLE = """\b
Examples:
  depthrank flow --dimension 10 --depth 3 --alpha 0.01 --m 2
  depthrank flow --pattern uniform --shape 60x40 --fraction 0.3 --rank 2 --depth 3 --plot run.png
  depthrank flow --input ratings.csv --depth 3 --init orthogonal --init-scale 0.01 --json
  depthrank flow --dimension 10 --depth 2 --alpha 0.3 --m 2 --certify 0.01
  depthrank flow --dimension 10 --depth 3 --alpha 0.3 --m 2 --optimizer adam --learning-rate 0.01"""


class Solver(StrEnum):
    """How the flow is integrated."""

    AUTO = "auto"
    CHEBYSHEV = "chebyshev"
    TSIT5 = "tsit5"
    DOPRI8 = "dopri8"
    KVAERNO5 = "kvaerno5"


_FLOW_ONLY = {
    "certify": None,
    "rtol": 1e-6,
    "max_time": float("inf"),
    "max_steps": 200_000,
    "max_seconds": float("inf"),
    "times": None,
    "solver": Solver.AUTO,
}


_PROVED = ("certified", "reason", "sigma_lower", "sigma_upper", "product_move")


def _option(help: str, metavar: str | None = None) -> Any:
    return typer.Option(help=help, metavar=metavar)


def command(
    ctx: typer.Context,
    depth: options.Depth,
    alpha: Annotated[float | None, _option("Diagonal entries of every factor, > 0.", "A")] = None,
    m: Annotated[float | None, _option("Off-diagonal entries are alpha/m; 1 to inf.", "M")] = None,
    dimension: options.Dimension = None,
    blocks: options.Blocks = None,
    block_size: options.BlockSize = 1,
    value: Annotated[
        float, _option("The observed value; with --rank, the root mean square.", "W")
    ] = 1.0,
    shape: Annotated[str | None, _option("Size of a rectangular matrix.", "ROWSxCOLS")] = None,
    pattern: Annotated[
        problems.Pattern | None, _option("What is seen; diagonal, or block-diagonal for blocks.")
    ] = None,
    fraction: Annotated[float | None, _option("Observed share (uniform, bernoulli).", "F")] = None,
    count: Annotated[
        int | None, _option("Observed entries (uniform, connected, disconnected).", "K")
    ] = None,
    components: Annotated[int | None, _option("Components (disconnected).", "K")] = None,
    band: Annotated[int, _option("Diagonals on either side (banded).", "K")] = 1,
    rank: Annotated[int | None, _option("Observe a random matrix of this rank.", "R")] = None,
    input: Annotated[
        Path | None, _option("Take what is seen from a file, as `complete` reads it.", "FILE")
    ] = None,
    rows: options.Rows = None,
    cols: options.Cols = None,
    values: options.Values = None,
    missing: options.Missing = None,
    mask: options.Mask = None,
    init: Annotated[
        problems.Init | None, _option("The start; alpha-m where --alpha is given, else gaussian.")
    ] = None,
    init_scale: Annotated[
        float | None,
        _option("Norm of the end-to-end matrix at the start; 1e-3 of the data's.", "X"),
    ] = None,
    width: Annotated[int | None, _option("Hidden width; min(rows, cols) if left.", "N")] = None,
    weight_decay: Annotated[float, _option("Weight decay, >= 0.", "X")] = 0.0,
    tol: Annotated[
        float, _option("Fitted at this mean squared residual relative to the data's.", "X")
    ] = 1e-14,
    certify: Annotated[
        float | None,
        _option("End once the limit is proved to lie within this fraction of the norm.", "X"),
    ] = None,
    rtol: Annotated[float, _option("Relative error of one step of the integration.", "X")] = 1e-6,
    max_time: Annotated[float, _option("Flow time to stop at.", "T")] = float("inf"),
    max_steps: Annotated[int, _option("Steps to stop at.", "N")] = 200_000,
    max_seconds: Annotated[float, _option("Seconds to stop after.", "S")] = float("inf"),
    times: Annotated[
        str | None, _option("Record exactly at these times, separated by commas.", "T,T,...")
    ] = None,
    solver: Annotated[Solver, _option("Method of integration.")] = Solver.AUTO,
    optimizer: Annotated[
        str | None,
        _option("Descend instead: sgd, momentum, adam, rmsprop, adagrad, ...", "NAME"),
    ] = None,
    learning_rate: Annotated[float | None, _option("Step size of the optimiser.", "X")] = None,
    steps: Annotated[int, _option("Steps of the optimiser at most.", "N")] = 10_000,
    seed: options.Seed = None,
    plot: Annotated[Path | None, _option("Draw the run (.png, .svg, .pdf).", "FILE")] = None,
    save: Annotated[Path | None, _option("Keep the course over time (.zarr, .nc).", "FILE")] = None,
    report: options.Report = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Follow the gradient flow of deep matrix factorisation to its end.

    What is seen is a pattern with one value (as in `depthrank limits`), a random matrix of a given
    rank, or a file. Where a closed form of the limit is known, the result is compared with it.
    """
    given = dict(ctx.params)
    _check(given)
    seed = console.seed_or_draw(seed)
    with console.heard() as warned:
        made = _made(given, seed)
        start = problems.start(init, alpha, m, init_scale, made.observations)
        trajectory = _run(made, start, given, seed)
    result = summary(trajectory, made, start, seed) | {"warnings": warned}
    if plot is not None:
        from depthrank.report.figures import save as save_figure

        save_figure(trajectory.plot(), plot)
    if save is not None:
        _save(trajectory, save)
    if report is not None:
        from depthrank.report.page import trajectory_page, write

        page = trajectory_page(
            trajectory,
            made.observations,
            result,
            command=console.asked(seed),
            python=_python(made, start, given, seed),
        )
        write(page, report)
    if json:
        console.emit(result)
    elif not quiet:
        _print(result)
    if trajectory.stopped_by == "interrupted":
        console.say("Interrupted; this is the state that was reached.")
        raise typer.Exit(130)


def summary(
    trajectory: "Trajectory", made: problems.Made, start: "Start", seed: int
) -> dict[str, Any]:
    """Return the JSON object of a run."""
    import numpy as np

    observations, proof = made.observations, trajectory.certificate
    regime, limit = _limit(made, trajectory, start, seed)
    error = None
    if made.truth is not None:
        gap = np.linalg.norm(trajectory.end_to_end - made.truth)
        error = float(gap / np.linalg.norm(made.truth))
    return {
        "shape": observations.shape,
        "n_observed": observations.n_observed,
        "depth": trajectory.depth,
        "init": repr(start),
        "seed": seed,
        "singular_values": trajectory.singular_values,
        "stable_rank": trajectory.stable_rank,
        "effective_rank": trajectory.effective_rank,
        "coupled": _coupled(made, trajectory.depth, start, seed),
        "regime": regime,
        "limit": limit,
        "certificate": proof and {name: getattr(proof, name) for name in _PROVED},
        "loss": trajectory.loss,
        "observed_mse": trajectory.observed_mse,
        "reconstruction_error": error,
        "time": trajectory.time,
        "steps": trajectory.steps,
        "evaluations": trajectory.evaluations,
        "converged": trajectory.converged,
        "stopped_by": trajectory.stopped_by,
        "seconds": trajectory.seconds,
        "compile_seconds": trajectory.compile_seconds,
        "settings": trajectory.settings,
    }


def _check(given: dict[str, Any]) -> None:
    """Refuse options that do not go together, before anything starts."""
    console.check_output(given["plot"], console.PICTURES, "--plot")
    console.check_output(given["save"], (".zarr", ".nc"), "--save")
    console.check_output(given["report"], (".html", ".htm"), "--report")
    if given["input"] is not None:
        made = ("pattern", "dimension", "shape", "blocks", "rank", "fraction", "count")
        for name in made:
            if given[name] is not None:
                raise DepthrankError(f"--{name} makes a problem and --input reads one; give one.")
    if (given["optimizer"] is None) != (given["learning_rate"] is None):
        raise DepthrankError("--optimizer NAME and --learning-rate X go together; give both.")
    if given["optimizer"] is not None:
        for name, usual in _FLOW_ONLY.items():
            if given[name] != usual:
                option = name.replace("_", "-")
                raise DepthrankError(f"--{option} belongs to the flow; --optimizer takes --steps.")


def _made(given: dict[str, Any], seed: int) -> problems.Made:
    if given["input"] is not None:
        names = ("rows", "cols", "values", "missing", "mask")
        options = {key: given[key] for key in names}
        return problems.Made(inputs.read(given["input"], **options), inputs.python(given))
    words = "dimension shape blocks block_size value rank fraction count components band"
    sizes = {key: given[key] for key in words.split()}
    return problems.make(given["pattern"], **sizes, seed=seed)


def _run(made: problems.Made, start: "Start", given: dict[str, Any], seed: int) -> "Trajectory":
    from depthrank.cli.progress import Reporter

    shared = {key: given[key] for key in ("depth", "width", "weight_decay", "tol")}
    shared |= {"init": start, "seed": seed}
    label = "flow" if given["optimizer"] is None else given["optimizer"]
    with Reporter(label, quiet=given["quiet"]) as reporter:
        if given["optimizer"] is not None:
            from depthrank.dynamics.descent import descend

            return descend(
                made.observations,
                optimizer=given["optimizer"],
                learning_rate=given["learning_rate"],
                steps=given["steps"],
                progress=reporter.callback,
                **shared,
            )
        from depthrank.dynamics.flow import flow

        return flow(
            made.observations,
            certify=given["certify"],
            rtol=given["rtol"],
            max_time=given["max_time"],
            wall_clock=given["max_seconds"],
            max_steps=given["max_steps"],
            times=_times(given["times"]),
            solver=given["solver"].value,
            progress=reporter.callback,
            **shared,
        )


def _times(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise DepthrankError(
            f"--times is {text!r}; write numbers separated by commas, as in 0,1,10,100."
        ) from None


def _coupled(made: problems.Made, depth: int, start: "Start", seed: int) -> bool:
    """Whether all observed entries train together: by structure, from this start."""
    from depthrank.factors import dims
    from depthrank.theory import can_couple

    factors = start(dims(made.observations.shape, depth), seed)
    if all((W != 0).all() for W in factors):
        return can_couple(made.observations, depth=depth).everything
    return can_couple(made.observations, factors=factors).everything


def _limit(
    made: problems.Made, trajectory: "Trajectory", start: "Start", seed: int
) -> tuple[str, dict[str, Any] | None]:
    """Return the regime and the exact limit beside the result, or the assumption that fails."""
    import numpy as np

    from depthrank.initialization import AlphaM
    from depthrank.theory import RankMeasures, limits, limits_for

    settings = trajectory.settings
    if settings.get("weight_decay") or "optimizer" in settings:
        return "no closed form: the exact limits are those of the flow without weight decay", None
    depth, m, n = trajectory.depth, *made.observations.shape
    if any(W.shape != (min(m, n),) * 2 for W in trajectory.factors) and m == n:
        return "no closed form: the exact limits assume the full width", None
    found: RankMeasures
    try:
        if made.blocks is not None and isinstance(start, AlphaM):
            n_blocks, size = made.blocks
            value = float(made.observations.values[0])
            found = limits(
                depth=depth,
                alpha=start.alpha,
                m=start.m,
                n_blocks=n_blocks,
                block_size=size,
                value=value,
            )
            regime = found.regime
        else:
            found = limits_for(made.observations, depth=depth, init=start, seed=seed)
            regime = found.statement
    except DepthrankError as error:
        reason = str(error).removesuffix(" depthrank.flow(observations, ...) simulates this case.")
        return f"no closed form: {reason.rstrip('.')}", None
    s = trajectory.singular_values
    live = found.singular_values > 1e-12 * max(float(found.singular_values[0]), 1e-300)
    gap = np.abs(s - found.singular_values)[live] / found.singular_values[live]
    return regime, {
        "singular_values": found.singular_values,
        "stable_rank": found.stable_rank,
        "effective_rank": found.effective_rank,
        "largest_relative_difference": float(gap.max(initial=0.0)),
    }


def _python(made: problems.Made, start: "Start", given: dict[str, Any], seed: int) -> str:
    """Return the Python lines that do the same."""
    words = ["observations", f"depth={given['depth']}", f"init=depthrank.{start!r}"]
    words[-1] = words[-1].replace("=inf", '=float("inf")')
    usual: dict[str, Any] = {"width": None, "weight_decay": 0.0, "tol": 1e-14}
    if given["optimizer"] is None:
        name = "flow"
        usual |= _FLOW_ONLY | {"wall_clock": float("inf")}
        given = given | {
            "solver": given["solver"].value,
            "times": _times(given["times"]),
            "wall_clock": given["max_seconds"],
        }
        del usual["max_seconds"]
    else:
        name = "descend"
        words += [f"{key}={given[key]!r}" for key in ("optimizer", "learning_rate", "steps")]
    words += [f"{key}={given[key]!r}" for key, value in usual.items() if given[key] != value]
    call = f"run = depthrank.{name}({', '.join([*words, f'seed={seed}'])})"
    return "\n".join(["import depthrank", "", made.python, call, "run.singular_values"])


def _save(trajectory: "Trajectory", path: Path) -> None:
    """Write the course over time under a temporary name, then rename."""
    import shutil

    # The ending stays in place: it says which of the two forms is meant.
    temporary = path.with_name(f".{path.stem}.part{path.suffix}")
    try:
        trajectory.save(temporary)
        if path.is_dir():
            shutil.rmtree(path)
        temporary.rename(path)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary)
        else:
            temporary.unlink(missing_ok=True)


def _print(result: dict[str, Any]) -> None:
    m, n = result["shape"]
    console.heading(
        f"{m} x {n}, {result['n_observed']:,} entries observed, depth {result['depth']}: "
        f"{result['stopped_by']}"
    )
    rows = [
        ("singular values", console.spectrum(result["singular_values"])),
        ("stable rank", console.number(result["stable_rank"])),
        ("effective rank", console.number(result["effective_rank"])),
        ("observed loss", console.number(result["loss"], 3)),
        ("flow time", console.number(result["time"])),
        ("work", f"{result['steps']:,} steps, {result['evaluations']:,} gradient evaluations"),
        (
            "seconds",
            f"{result['seconds']:.2f}, after {result['compile_seconds']:.2f} of compiling",
        ),
        ("coupled", "yes" if result["coupled"] else "no"),
        ("regime", result["regime"]),
    ]
    if result["reconstruction_error"] is not None:
        rows.insert(4, ("error of the whole", f"{result['reconstruction_error']:.3g} (relative)"))
    if result["limit"] is not None:
        gap = result["limit"]["largest_relative_difference"]
        rows.append(("exact limit", f"agrees to {gap:.1e} in every singular value"))
    if result["certificate"] is not None:
        rows.append(("proof", result["certificate"]["reason"]))
    console.facts([*rows, ("seed", str(result["seed"]))])
