"""What a config may say, and what it is told when it says something else."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from depthrank.errors import DepthrankError
from depthrank.sweeps.batches import batches_of
from depthrank.sweeps.config import difference, load
from depthrank.sweeps.estimate import estimate

FIXED = {"dimension": 4, "m": 2.0}


def config(**changes: Any) -> dict[str, Any]:
    return {
        "task": "limits",
        "fixed": FIXED,
        "axes": {"depth": [2, 3], "alpha": [0.1, 1.0]},
    } | changes


def test_axes_multiply_in_the_order_they_are_written() -> None:
    read = load(config())
    assert read.shape == (2, 2)
    told = [(cell.depth, cell.alpha) for cell in read.cells.values()]  # type: ignore[attr-defined]
    assert told == [(2, 0.1), (2, 1.0), (3, 0.1), (3, 1.0)]


@pytest.mark.parametrize(
    ("given", "labels"),
    [
        ({"linear": [1.0, 2.0], "points": 3}, (1.0, 1.5, 2.0)),
        ({"log": [0.01, 1.0], "points": 3}, (0.01, 0.1, 1.0)),
        ([0.5], (0.5,)),
    ],
)
def test_an_axis_may_be_spaced_evenly(given: Any, labels: tuple[float, ...]) -> None:
    axis = load(config(axes={"depth": {"range": [2, 6, 2]}, "alpha": given})).axes
    assert axis[0].labels == (2, 4)
    np.testing.assert_allclose(axis[1].labels, labels, rtol=1e-15)


def test_a_zip_sets_several_settings_together() -> None:
    read = load(config(axes={"start": {"depth": [2, 3], "alpha": [0.1, 0.3]}}))
    assert read.shape == (2,)
    assert read.axes[0].labels == (2, 3)  # named by its first setting, whose values differ
    assert [cell.alpha for cell in read.cells.values()] == [0.1, 0.3]  # type: ignore[attr-defined]


def test_cases_are_named_and_may_set_different_things() -> None:
    cases = [
        {"label": "shallow", "depth": 1, "alpha": 0.1},
        {"label": "deep", "depth": 4, "alpha": 0.1, "value": 2.0},
    ]
    read = load(config(axes={"case": cases}))
    assert read.axes[0].labels == ("shallow", "deep")
    assert [cell.value for cell in read.cells.values()] == [1.0, 2.0]  # type: ignore[attr-defined]


def test_a_conditional_axis_counts_only_where_its_condition_holds() -> None:
    fixed = {"rows": 4, "columns": 3, "rank": 1, "m": 2.0, "pattern": "uniform", "fraction": 0.5}
    read = load(
        {
            "fixed": {key: value for key, value in fixed.items() if key != "m"},
            "axes": {
                "start": [{"label": "a", "init": "alpha-m", "m": 2.0}, {"init": "identity"}],
                "alpha": [0.1, 0.2, 0.3],
                "depth": [2, 3],
            },
            "when": {"alpha": {"init": "alpha-m"}},
        }
    )
    assert read.shape == (2, 3, 2)
    assert len(read.cells) == 3 * 2 + 1 * 2
    assert read.settings(read.size - 1) is None


def test_streams_vary_one_at_a_time() -> None:
    from depthrank.sweeps.problems import make

    fixed = {"rows": 6, "columns": 5, "rank": 2, "pattern": "uniform", "fraction": 0.5}
    fixed |= {"depth": 2, "noise": 0.1}
    read = load({"fixed": fixed, "axes": {"mask_seed": [0, 1], "truth_seed": [0, 1]}})
    a, b, c, _ = (make(cell) for cell in read.cells.values())  # type: ignore[arg-type]
    assert (a.observations.rows == b.observations.rows).all()
    assert a.truth is not None
    assert c.truth is not None
    assert (a.truth == c.truth).all()
    assert not (a.truth == b.truth).all()
    assert not np.array_equal(a.observations.mask(), c.observations.mask())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tsak": "flow"}, "config has 'tsak'.*did you mean 'task'"),
        ({"task": "flwo"}, "task is 'flwo'; it must be one of flow, descent"),
        ({"fixed": {"dimensoin": 4}}, "fixed has 'dimensoin'.*did you mean 'dimension'"),
        ({"axes": {"depht": [1]}}, "axes.depht sets 'depht'.*did you mean 'depth'"),
        ({"axes": {"depth": [2], "alpha": []}}, "axes.alpha has no position"),
        ({"axes": {"depth": [2, 2], "alpha": [1.0]}}, "axes.depth has 2 twice"),
        ({"axes": {"depth": 2, "alpha": [1.0]}}, "axes.depth is 2; write a list"),
        ({"axes": {"depth": [2], "alpha": {"log": [0, 1], "points": 3}}}, "both ends must be > 0"),
        ({"axes": {"depth": [2], "alpha": {"log": [1, 2]}}}, "axes.alpha is .* write a list"),
        ({"axes": {"depth": {"range": [1.5, 3]}, "alpha": [1.0]}}, "range is .* takes integers"),
        ({"axes": {"depth": [2], "alpha": {"log": [1, 2], "points": 0}}}, "points is 0"),
        ({"axes": {"m": [2.0], "depth": [2], "alpha": [1.0]}}, "m is set by axes.m and by fixed"),
        ({"axes": {"mode": [2]}}, "axes.mode: an axis is called"),
        ({"when": {"alhpa": {"depth": 2}}}, "when has 'alhpa'.*did you mean 'alpha'"),
        ({"when": {"alpha": {"depht": 2}}}, "when.alpha has 'depht'.*did you mean 'depth'"),
        ({"when": {"alpha": 3}}, "when.alpha is 3; write settings"),
        ({"fixed": 3}, "fixed is 3; it must be a table"),
        ({"batch": 0}, "batch is 0; it must be an integer"),
        (
            {"axes": {"depth": [2], "alpha": {"range": [0, 20_000_000]}}},
            "one sweep holds 10,000,000",
        ),
    ],
)
def test_a_config_that_makes_no_sense_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DepthrankError, match=message):
        load(config(**change))


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        (
            {"depth": [2, 3], "alpha": [0.1, -1.0]},
            r"alpha is -1.0: input should be greater than 0 \(cell depth=2, alpha=-1\)",
        ),
        ({"depth": [2, 0], "alpha": [0.1]}, r"depth is 0: .* \(cell depth=0, alpha=0.1\)"),
        ({"depth": [2, "3"], "alpha": [0.1]}, "depth is '3': input should be a valid integer"),
        ({"depth": [2]}, "alpha is missing; fix it or give it an axis"),
    ],
)
def test_one_bad_value_names_its_cell_before_anything_runs(
    axes: dict[str, Any], message: str
) -> None:
    with pytest.raises(DepthrankError, match=message):
        batches_of(load(config(axes=axes)))


@pytest.mark.parametrize(
    ("fixed", "message"),
    [
        ({}, "give what is seen once"),
        ({"dimension": 3, "input": "a.csv"}, "give what is seen once"),
        ({"input": "a.csv", "rank": 2}, "rank makes a matrix and input reads one"),
        ({"blocks": 2, "rows": 4, "columns": 4}, "blocks are square"),
        ({"blocks": 2, "dimension": 4}, "give the size once: blocks, or dimension"),
        ({"dimension": 5, "block_size": 2}, "dimension 5 is no multiple of block_size 2"),
        ({"dimension": 4, "blocks": 2, "pattern": "uniform"}, "blocks belong to the pattern"),
        ({"rows": 4}, "give the size once: dimension, or rows and columns"),
        ({"dimension": 3, "alpha": 0.1}, "alpha-m needs alpha and m"),
        ({"dimension": 3, "init": "identity", "m": 2.0}, "alpha and m belong to init alpha-m"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(fixed: dict[str, Any], message: str) -> None:
    with pytest.raises(DepthrankError, match=message):
        batches_of(load({"fixed": fixed, "axes": {"depth": [2]}}))


def test_limits_and_studies_check_their_own() -> None:
    with pytest.raises(DepthrankError, match="give the size once: dimension, or blocks"):
        batches_of(load(config(fixed={"m": 2.0})))
    with pytest.raises(DepthrankError, match="no multiple of block_size 3"):
        batches_of(load(config(fixed={"m": 2.0, "dimension": 4, "block_size": 3})))
    with pytest.raises(DepthrankError, match="there is no study 'limts'; there are"):
        batches_of(load({"task": "study", "axes": {"study": ["limts"]}}))


def test_files_are_read_relative_to_the_config(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text(",a,b\nx,1,2\ny,,4\nz,5,6\n")
    text = 'task = "completion"\n[axes]\ninput = ["table.csv"]\nseed = [0, 1]\n'
    (tmp_path / "sweep.toml").write_text(text)
    read = load(tmp_path / "sweep.toml")
    assert [batch.group[1] for batch in batches_of(read)] == [(3, 2), (3, 2)]
    (tmp_path / "table.csv").write_text(",a,b\nx,1,2\ny,,4\nz,5,7\n")
    lines = difference(read.canonical(), load(tmp_path / "sweep.toml").canonical())
    assert len(lines) == 0 or lines[0].startswith("files.table.csv")


def test_a_file_that_is_no_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DepthrankError, match=r"cannot read .*none\.toml': No such file"):
        load(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("depth = [2\n")
    with pytest.raises(DepthrankError, match="is not TOML"):
        load(tmp_path / "bad.toml")


def test_batches_follow_from_the_config_alone() -> None:
    read = load(config(axes={"depth": [2, 3], "alpha": {"log": [0.1, 1.0], "points": 10}}, batch=4))
    batches = batches_of(read)
    assert [len(batch.cells) for batch in batches] == [4, 4, 2, 4, 4, 2]
    assert sorted(cell for batch in batches for cell in batch.cells) == list(range(20))
    assert len({batch.group for batch in batches}) == 2
    found = estimate(read, batches)
    assert (found.cells, found.batches, found.programs) == (20, 6, 2)


def test_small_batches_of_flows_are_filled_up_to_share_a_program() -> None:
    flows = {"fixed": {"dimension": 3, "m": 2.0, "depth": 2}}
    for count, sizes in ((3, [16]), (40, [64]), (300, [300]), (520, [512, 16])):
        read = load(flows | {"axes": {"alpha": {"linear": [0.1, 1.0], "points": count}}})
        assert [batch.size for batch in batches_of(read)] == sizes


def test_differences_name_the_place() -> None:
    old, new = load(config()).canonical(), load(config(axes={"depth": [2, 4], "alpha": [0.1]}))
    lines = difference(old, new.canonical())
    assert lines[0] == "axes.depth.labels: [2, 3] in the store, [2, 4] in the config"
    assert difference(old, load(config()).canonical()) == []
