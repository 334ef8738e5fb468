"""What comes out with no options: exact on clean tables, calibrated on noisy ones."""

import numpy as np
import pytest

from depthrank import DeepMatrixCompletion, Observations
from depthrank.completion.averaging import average
from depthrank.completion.uncertainty import deviations, width
from depthrank.graph import ACROSS

NAN = np.nan


def low_rank(shape, rank, share, noise, seed):
    g = np.random.default_rng(seed)
    truth = g.standard_normal((shape[0], rank)) @ g.standard_normal((rank, shape[1]))
    seen = g.random(shape) < share
    return truth, seen, truth + noise * truth.std() * g.standard_normal(shape)


@pytest.mark.parametrize("seed", range(3))
def test_clean_rank_five_is_recovered_without_options(seed):
    truth, seen, _ = low_rank((100, 100), 5, 0.2, 0.0, seed)
    model = DeepMatrixCompletion(random_state=seed)
    filled = model.fit_transform(np.where(seen, truth, NAN))
    assert np.linalg.norm(filled - truth) < 1e-8 * np.linalg.norm(truth)
    assert model.report_["rank"] == 5
    assert model.report_["finish"] == "polished"


def test_positive_blocks_get_the_balanced_completion():
    g = np.random.default_rng(0)
    truth = np.outer(g.uniform(0.5, 1.5, 60), g.uniform(0.5, 1.5, 60))
    seen = np.kron(np.eye(3), np.ones((20, 20))).astype(bool)
    for sign in (1, -1):
        model = DeepMatrixCompletion(random_state=0).fit(np.where(seen, sign * truth, NAN))
        error = model._model.estimate_table() - sign * truth
        assert np.sqrt(np.mean(error[seen] ** 2)) < 1e-6
        assert np.sqrt(np.mean(error[~seen] ** 2)) < 0.06
        assert (model.determination_[~seen] == ACROSS).all()
        assert model.report_["start"] == "positive"
        rows, cols = np.nonzero(~seen)
        # Nothing observed bears on them: as uncertain as the table is large.
        assert (deviations(model._model, rows[:50], cols[:50]) > 0.9).all()


@pytest.mark.parametrize(("noise", "share"), [(0.1, 0.3), (0.5, 0.6)])
def test_intervals_cover_what_they_say(noise, share):
    hits, level = [], 0.9
    for seed in range(3):
        _, seen, table = low_rank((110, 95), 3, share, noise, seed)
        model = DeepMatrixCompletion(random_state=seed).fit(np.where(seen, table, NAN))
        rows, cols = np.nonzero(~seen)
        low, high = model.predict_interval(rows, cols, level)
        hits.append(np.mean((low <= table[~seen]) & (table[~seen] <= high)))
    assert 0.85 <= np.mean(hits) <= 0.95


def test_effects_alone_are_noticed():
    g = np.random.default_rng(1)
    table = g.normal(size=(150, 1)) + g.normal(size=80) + 0.5 * g.normal(size=(150, 80))
    seen = g.random(table.shape) < 0.3
    model = DeepMatrixCompletion(random_state=0).fit(np.where(seen, table, NAN))
    assert any("next to nothing beyond" in note for note in model.report_["warnings"])


def test_the_average_is_the_closed_form_for_effects_of_a_full_table():
    g = np.random.default_rng(2)
    table = g.normal(size=(40, 1)) + 0.1 * g.normal(size=(40, 25))
    obs = Observations.from_dense(table - table.mean())
    found = average(obs, 0, "rows", 0)
    shrunk = 25 / found.sigma**2 / (25 / found.sigma**2 + 1 / found.rows.prior[0])
    expected = shrunk * (table - table.mean()).mean(axis=1)
    np.testing.assert_allclose(found.rows.mean[:, 0], expected, rtol=0.01)
    assert found.sigma == pytest.approx(0.1, rel=0.1)


def test_the_interval_without_held_out_cells_is_the_normal_one():
    model = DeepMatrixCompletion(random_state=0, depth=2, validation_fraction=0.0)
    model.fit(np.outer(np.arange(1.0, 7), [1.0, 2, 3]))
    assert width(model._model, 0.9) == pytest.approx(1.6449, abs=1e-3)


@pytest.mark.parametrize("level", [0.0, 1.0, -1, "x"])
def test_a_level_out_of_range_is_refused(level):
    model = DeepMatrixCompletion(depth=2, random_state=0).fit(np.outer([1.0, 2], [1.0, 2]))
    with pytest.raises(ValueError, match=r"level is .* between 0 and 1"):
        model.predict_interval([0], [0], level)
