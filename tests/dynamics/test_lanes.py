"""Lanes over several devices: the same answer, wherever they lie."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from depthrank.dynamics.lanes import lanes_for

SCRIPT = """
import json
import jax, numpy as np
from depthrank import Gaussian, Observations, flow_batch, patterns
from depthrank.dynamics import lanes

laid_out = set()
start = lanes.start
def noting(problem, factors, method):
    laid_out.update(len(leaf.sharding.device_set) for leaf in jax.tree.leaves((problem, factors)))
    return start(problem, factors, method)
lanes.start = noting
seen = Observations.from_mask(np.outer([1., 2., 3.], [1., -1.]), patterns.staircase((3, 2)))
run = flow_batch(seen, [Gaussian(0.1)((2, 2, 3), seed) for seed in range(30)])
print(json.dumps([sorted(laid_out), run.singular_values.values.tolist(), run.time.values.tolist()]))
"""


def run_on(devices: int) -> tuple[list[int], np.ndarray, np.ndarray]:
    flags = f"--xla_force_host_platform_device_count={devices}"
    environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
    )
    counts, values, times = json.loads(done.stdout)
    return counts, np.array(values), np.array(times)


def test_a_batch_is_spread_over_all_devices():
    one, eight = run_on(1), run_on(8)
    assert one[0] == [1]
    assert eight[0] == [8]
    np.testing.assert_allclose(eight[1], one[1], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(eight[2], one[2], rtol=1e-12)


@pytest.mark.parametrize(
    ("members", "parameters", "lanes"),
    [
        (1, 12, 32),
        (33, 12, 64),
        (500, 12, 256),
        (10_000, 300, 256),
        (10_000, 5_000, 32),
        (3, 30_000, 3),
        (9, 10**6, 4),
    ],
)
def test_lanes_are_a_power_of_two_and_fewer_for_large_matrices(members, parameters, lanes):
    assert lanes_for(members, parameters) == lanes
