"""Complete two real inputs by the command line, and look at what came out.

A questionnaire with answers missing, and a photograph with 70 % of its pixels missing. For both
the error is measured on cells that took no part in the fit, beside two baselines: the column mean,
and shrunken row and column effects. Everything is written under demo-output/.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from depthrank.cli.complete import baselines
from depthrank.observations import Observations
from examples.demo_data import load_china, load_msq

OUT = Path("demo-output")
MISSING = 0.7


def complete(*arguments: str) -> dict[str, Any]:
    """Run `depthrank complete` as a user would, progress on the terminal, and read its JSON."""
    words = ["complete", *arguments, "--seed", "0"]
    print("$ depthrank " + " ".join(words), flush=True)
    run = subprocess.run(
        [sys.executable, "-m", "depthrank", *words, "--json"],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    answer: dict[str, Any] = json.loads(run.stdout)
    return answer


def show(error: float, by: dict[str, float], unit: str, result: dict[str, Any]) -> None:
    """Print the error beside the baselines."""
    print(f"  error on held-out cells ({unit})")
    print(f"    depthrank             {error:.4f}")
    for name, value in by.items():
        print(f"    {name:<21} {value:.4f}   {1 - error / value:+.0%}")
    print(
        f"  depth {result['depth']}, weight decay {result['weight_decay']:.3g}, "
        f"effective rank {result['effective_rank']:.1f}, {result['seconds']:.0f} s\n"
    )


def questionnaire() -> None:
    """Complete 3,896 persons x 75 mood items; a tenth of the known answers is kept out."""
    table = OUT / "msq.csv"
    load_msq().to_csv(table)
    print("Mood questionnaire: 3,896 persons x 75 items, answers 0 to 3, 5.6 % missing")
    result = complete(
        str(table),
        *("-o", str(OUT / "msq-filled.csv")),
        *("--report", str(OUT / "msq.html"), "--holdout", "0.1", "--row-labels", "yes"),
    )
    show(result["holdout_rmse"], result["baselines"], "points, of 0 to 3", result)


def photograph() -> None:
    """Complete a photograph of which 30 % of the pixels are left."""
    truth = load_china(reduced=2)
    height, width, _ = truth.shape
    lost = np.random.default_rng(0).random((height, width)) < MISSING
    holes = np.dstack([truth, np.where(lost, 0, 255).astype(np.uint8)])
    Image.fromarray(holes).save(OUT / "china-holes.png")
    Image.fromarray(truth).save(OUT / "china-truth.png")
    print(f"Photograph: {height} x {width} pixels in colour, {MISSING:.0%} of them missing")
    result = complete(
        str(OUT / "china-holes.png"),
        *("-o", str(OUT / "china-filled.png")),
        *("--report", str(OUT / "china.html")),
    )
    filled = np.asarray(Image.open(OUT / "china-filled.png").convert("RGB"))
    error = np.sqrt(np.mean((filled[lost] / 255 - truth[lost] / 255) ** 2))
    wide = np.concatenate([truth[..., channel] for channel in range(3)], axis=1) / 255
    seen = Observations.from_mask(wide, np.tile(~lost, (1, 3)))
    hidden = Observations.from_mask(wide, np.tile(lost, (1, 3)))
    show(float(error), baselines(seen, hidden), "intensity, of 0 to 1", result)


def main() -> None:
    """Run both."""
    clock = time.perf_counter()
    OUT.mkdir(exist_ok=True)
    questionnaire()
    photograph()
    files = ", ".join(sorted(path.name for path in OUT.iterdir()))
    print(f"{time.perf_counter() - clock:.0f} s in all. Under {OUT}/: {files}")


if __name__ == "__main__":
    main()
