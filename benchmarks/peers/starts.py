"""What depth 2 and 3 make of random starts on the three blocks, beside the positive start."""

import warnings

import numpy as np

from benchmarks.peers.data import blocks
from depthrank import DeepMatrixCompletion


def main() -> None:
    """Print root mean square errors across the blocks, seed by seed."""
    warnings.simplefilter("ignore")
    train, test = blocks(0)
    for name, settings in (
        ("depth 2, Gaussian", {"depth": 2}),
        ("depth 3, Gaussian", {"depth": 3}),
        ("no options", {}),
    ):
        errors = []
        for seed in range(3):
            model = DeepMatrixCompletion(
                random_state=seed, **settings, **({"offsets": "none"} if settings else {})
            ).fit(train)
            found = model._model.cells(test.rows, test.cols)
            errors.append(float(np.sqrt(np.mean((found - test.values) ** 2))))
        print(f"{name:<20}", *(f"{error:.3f}" for error in errors))


if __name__ == "__main__":
    main()
