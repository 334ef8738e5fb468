"""Which cells are determined, against exact ranks of Jacobians over a prime field."""

import numpy as np
import pytest

from depthrank.completion.determine import DETERMINED, LABELS, Determination
from depthrank.graph import ACROSS, WITHIN, connectivity
from depthrank.observations import Observations

PRIME = 2**31 - 1


def rank_mod(rows: list[list[int]]) -> int:
    """Rank over the integers modulo a prime, by elimination."""
    rows, rank = [list(row) for row in rows], 0
    for col in range(len(rows[0]) if rows else 0):
        pivot = next((i for i in range(rank, len(rows)) if rows[i][col] % PRIME), None)
        if pivot is None:
            continue
        rows[rank], rows[pivot] = rows[pivot], rows[rank]
        inverse = pow(rows[rank][col], -1, PRIME)
        lead = [x * inverse % PRIME for x in rows[rank]]
        for i in range(rank + 1, len(rows)):
            if factor := rows[i][col]:
                rows[i] = [(x - factor * y) % PRIME for x, y in zip(rows[i], lead, strict=True)]
        rank += 1
    return rank


def brute_force(seen: np.ndarray, r: int, random: np.random.Generator) -> np.ndarray:
    """Whether the row of each missing cell lies in the span of those of the observed cells."""
    m, n = seen.shape
    u, v = random.integers(1, PRIME, (m, r)).tolist(), random.integers(1, PRIME, (n, r)).tolist()

    def row(i: int, j: int) -> list[int]:
        whole = [0] * ((m + n) * r)
        whole[i * r : i * r + r] = v[j]
        whole[(m + j) * r : (m + j) * r + r] = u[i]
        return whole

    jacobian = [row(i, j) for i, j in np.argwhere(seen)]
    rank = rank_mod(jacobian)
    determined = np.zeros(seen.shape, bool)
    for i, j in np.argwhere(~seen):
        determined[i, j] = rank_mod([*jacobian, row(i, j)]) == rank
    return determined


@pytest.mark.parametrize("part", range(5))
def test_determination_agrees_with_brute_force_on_small_random_patterns(part):
    random = np.random.default_rng(part)
    for _ in range(100):
        m, n, r = random.integers(2, 6), random.integers(2, 6), int(random.integers(1, 3))
        seen = random.random((m, n)) < random.uniform(0.3, 0.95)
        seen[random.integers(m), random.integers(n)] = True
        obs = Observations.from_mask(np.ones((m, n)), seen)
        codes = Determination(obs, connectivity(obs), r).table()
        # An empty row is isolated, whatever a rank test says of it.
        live = np.outer(seen.any(1), seen.any(0)) & ~seen
        expected = brute_force(seen, r, random)
        np.testing.assert_array_equal((codes == DETERMINED)[live], expected[live])


def test_rank_one_within_is_determined_and_across_is_not():
    seen = np.kron(np.eye(2), np.ones((3, 4))).astype(bool)
    seen[0, 1] = False
    obs = Observations.from_mask(np.ones((6, 8)), seen)
    found = Determination(obs, connectivity(obs), 1)
    assert found.label(np.array([0, 0]), np.array([1, 7])).tolist() == [DETERMINED, ACROSS]
    assert LABELS[DETERMINED] == "determined"


def test_id03_a_row_with_fewer_cells_than_the_rank_is_not_determined():
    seen = np.ones((6, 5), bool)
    seen[0, 1:] = False
    obs = Observations.from_mask(np.ones((6, 5)), seen)
    graph = connectivity(obs)
    assert (Determination(obs, graph, 2).table()[0, 1:] == WITHIN).all()
    assert (Determination(obs, graph, 1).table()[0, 1:] == DETERMINED).all()


def test_large_patterns_agree_with_small_ones(monkeypatch):
    random = np.random.default_rng(3)
    seen = random.random((30, 20)) < 0.2
    seen[0] = np.arange(20) == 3  # too few for rank two; the others have enough
    obs = Observations.from_mask(np.ones((30, 20)), seen)
    graph = connectivity(obs)
    small = Determination(obs, graph, 2).table()
    monkeypatch.setattr("depthrank.completion.determine._EXACT_UNKNOWNS", 0)
    np.testing.assert_array_equal(Determination(obs, graph, 2).table(), small)
    assert (small == DETERMINED).any()
    assert (small == WITHIN).any()
