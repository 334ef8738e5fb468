import numpy as np
import pytest

from depthrank.baselines import baseline, gaussian_singular_values, measures_of
from depthrank.errors import DepthrankError
from depthrank.reshaping import matrices


def test_drawn_spectra_have_the_law_of_gaussian_matrices():
    rng = np.random.default_rng(0)
    direct = [measures_of(np.linalg.svd(rng.normal(size=(7, 12)))[1]) for _ in range(400)]
    drawn = [measures_of(gaussian_singular_values(12, 7, rng)) for _ in range(400)]
    for name in direct[0]:
        a, b = (np.array([one[name] for one in sample]) for sample in (direct, drawn))
        error = np.hypot(a.std(), b.std()) / 20
        assert abs(a.mean() - b.mean()) < 4 * error  # four standard errors, 400 draws each


def test_limits_of_the_baseline():
    assert baseline(1, 9) == dict.fromkeys(baseline(1, 9), pytest.approx(1.0))
    assert set(baseline(4, 6, blocks=3, scheme="orthogonal").values()) == {12.0}
    # Marchenko-Pastur at ratio 1: the participation ratio of a large square matrix is m / 2
    assert baseline(500, 500)["participation_ratio"] / 500 == pytest.approx(0.5, rel=0.01)
    with pytest.raises(DepthrankError, match="scheme is 'flat'"):
        baseline(2, 3, scheme="flat")
    with pytest.raises(DepthrankError, match="all must be >= 1"):
        baseline(0, 3)


def test_kernels_become_the_matrices_they_are_named_after():
    W = np.random.default_rng(0).normal(size=(4, 3, 2, 5))
    np.testing.assert_array_equal(matrices(W)[0], W.reshape(4, -1))
    np.testing.assert_array_equal(matrices(W, conv="slices")[7], W[:, :, 1, 2])
    spatial = matrices(W, conv="spatial")[0]
    assert spatial[1 * 2 + 1, 2 * 5 + 3] == W[1, 2, 1, 3]
    flipped = matrices(W, transposed=True)[0]
    np.testing.assert_array_equal(flipped, W.transpose(1, 0, 2, 3).reshape(3, -1))
    for options, message in (({"conv": "none"}, "conv is 'none'"), ({"groups": 3}, "3 groups")):
        with pytest.raises(DepthrankError, match=message):
            matrices(W, **options)
