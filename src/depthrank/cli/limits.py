"""`depthrank limits`: what the theory says must come out, without integrating anything."""

from typing import Any

from depthrank.cli import console, options

EXAMPLE = """\b
Examples:
  depthrank limits --depth 3 --alpha 0.01 --m 2 --dimension 10
  depthrank limits --depth 2 --alpha 0.1 --m inf --blocks 5 --block-size 4 --json"""


def command(
    depth: options.Depth,
    alpha: options.Alpha,
    m: options.Ratio,
    dimension: options.Dimension = None,
    blocks: options.Blocks = None,
    block_size: options.BlockSize = 1,
    value: options.Value = 1.0,
    json: options.Json = False,
) -> None:
    """Compute the exact limit of the gradient flow for t to infinity.

    The setting: N diagonal blocks of size S (the diagonal itself for size 1) are observed, all
    with the value W; every factor starts with alpha on its diagonal and alpha/m off it.
    """
    result = exact(
        depth=depth,
        alpha=alpha,
        m=m,
        dimension=dimension,
        blocks=blocks,
        block_size=block_size,
        value=value,
    )
    if json:
        console.emit(result)
        return
    size = result["dimension"]
    what = "diagonal entries" if block_size == 1 else f"{block_size} x {block_size} diagonal blocks"
    console.heading(
        f"Exact limit of a {size} x {size} matrix at depth {depth}; "
        f"{result['blocks']} {what} observed, all {value:g}"
    )
    console.facts(
        [
            ("singular values", console.spectrum(result["singular_values"])),
            ("stable rank", _rank(result, "stable_rank")),
            ("effective rank", _rank(result, "effective_rank")),
            ("unobserved entries", console.number(result["cross_block_entry"])),
            ("observed loss", console.number(result["loss"])),
            ("half fitted at time", console.number(result["t_half"])),
            ("coupled", "yes" if result["coupled"] else "no"),
            ("regime", result["regime"]),
        ]
    )


def exact(
    *,
    depth: int,
    alpha: float,
    m: float,
    dimension: int | None,
    blocks: int | None,
    block_size: int,
    value: float,
) -> dict[str, Any]:
    """Return the exact limit as the JSON object of this command.

    Raises
    ------
    DepthrankError
        Naming the assumption that fails.
    """
    from depthrank.errors import DepthrankError
    from depthrank.memory import require
    from depthrank.theory import limits

    if dimension is None and blocks is None:
        raise DepthrankError("the size is missing; give --dimension D, or --blocks N.")
    size = dimension if dimension is not None else (blocks or 0) * block_size
    require(40 * max(size, 0), f"the list of {size:,} singular values")
    try:
        found = limits(
            depth=depth,
            alpha=alpha,
            m=m,
            dimension=dimension,
            n_blocks=blocks,
            block_size=block_size,
            value=value,
        )
    except DepthrankError as error:
        advice = "" if "depthrank.flow" in str(error) else " Other cases: `depthrank flow`."
        message = str(error).replace("depthrank.flow", "`depthrank flow`")
        raise DepthrankError(message + advice) from None
    names = ("stable_rank", "stable_rank_minus_1", "effective_rank", "effective_rank_minus_1")
    more = ("nuclear_norm", "in_block_entry", "cross_block_entry", "loss", "rate", "t_half")
    return {
        "depth": depth,
        "alpha": alpha,
        "m": m,
        "dimension": found.n_blocks * found.block_size,
        "blocks": found.n_blocks,
        "block_size": found.block_size,
        "value": value,
        "singular_values": found.singular_values,
        **{name: getattr(found, name) for name in (*names, *more)},
        "coupled": found.coupled,
        "regime": found.regime,
        "label": found.label,
    }


def _rank(result: dict[str, Any], name: str) -> str:
    """Write a rank; close to one, what it has above one says more."""
    above = result[f"{name}_minus_1"]
    return f"1 + {above:.4g}" if 0 < above < 1e-4 else console.number(result[name])
