import json
import struct
import sys

import numpy as np
import pytest
from safetensors.numpy import save_file

from depthrank import spectra
from depthrank.errors import DepthrankError
from depthrank.weights import compare_weights, layer_table, read_weights, summary

MEASURES = ("stable_rank", "effective_rank", "effective_rank_power2", "numerical_rank")


def write_raw(path, tensors):
    """Write a safetensors file by its specification: name -> (format name, shape, bytes)."""
    header, begin = {}, 0
    for name, (kind, shape, data) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [begin, begin + len(data)]}
        begin += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    body = b"".join(data for _, _, data in tensors.values())
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


@pytest.fixture
def arrays():
    rng = np.random.default_rng(2)
    return {
        "conv.weight": rng.normal(size=(4, 3, 2, 2)),
        "head.bias": rng.normal(size=7).astype(np.float32),
        "head.weight": rng.normal(size=(7, 5)).astype(np.float32),
        "half": rng.normal(size=(3, 2)).astype(np.float16),
        "steps": np.array(12),
        "codes": np.arange(6).reshape(2, 3),
    }


@pytest.mark.parametrize("kind", ["npz", "safetensors"])
def test_named_arrays_are_read_as_stored(tmp_path, arrays, kind):
    path = tmp_path / f"weights.{kind}"
    if kind == "npz":
        np.savez(path, **arrays)
    else:
        save_file(arrays, path, metadata={"format": "np"})
    read = read_weights(path)
    assert set(read) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(read[name], array)
        assert read[name].dtype == array.dtype


def test_npz_order_is_kept(tmp_path, arrays):
    np.savez(tmp_path / "w.npz", **arrays)
    assert list(read_weights(tmp_path / "w.npz")) == list(arrays)


def test_safetensors_order_is_that_of_the_data(tmp_path):
    ones = np.ones(4, "<f4").tobytes()
    write_raw(tmp_path / "w.safetensors", {n: ("F32", [2, 2], ones) for n in ("z", "a", "m")})
    assert list(read_weights(tmp_path / "w.safetensors")) == ["z", "a", "m"]


def test_npy_array_is_named_like_its_file(tmp_path):
    np.save(tmp_path / "layer1.npy", np.eye(3))
    read = read_weights(str(tmp_path / "layer1.npy"))
    assert list(read) == ["layer1"]
    np.testing.assert_array_equal(read["layer1"], np.eye(3))


def test_bfloat16_is_read_exactly_without_torch(tmp_path):
    values = np.array([[1.0, -2.5, 0.15625], [3e38, 1e-37, 0.0]], dtype=np.float32)
    upper = values.view(np.uint32) >> 16
    write_raw(tmp_path / "w.safetensors", {"W": ("BF16", [2, 3], upper.astype("<u2").tobytes())})
    W = read_weights(tmp_path / "w.safetensors")["W"]
    assert W.dtype == np.float32
    np.testing.assert_array_equal(W, (upper << 16).view(np.float32))
    np.testing.assert_allclose(W, values, rtol=2**-7)


def test_number_format_without_numpy_type_is_named(tmp_path):
    write_raw(tmp_path / "w.safetensors", {"W": ("F8_E4M3", [1, 2], b"ab")})
    with pytest.raises(DepthrankError, match="array 'W' has the number format F8_E4M3"):
        read_weights(tmp_path / "w.safetensors")


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".bin", ".PT"])
def test_pytorch_files_say_what_to_install(tmp_path, suffix, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    path = tmp_path / f"model{suffix}"
    path.write_bytes(b"PK\x03\x04")
    with pytest.raises(DepthrankError, match=r"PyTorch is not installed: pip install 'depthrank"):
        read_weights(path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("w.safetensors", b"not a header at all", "cannot be read as a safetensors file"),
        ("w.safetensors", b"", "cannot be read as a safetensors file"),
        ("w.npz", b"not a zip", "cannot be read as an NPZ file"),
        ("w.npz", b"", "cannot be read as an NPZ file"),
        ("w.npy", b"no magic", "cannot be read as an NPY file"),
        ("w.npy", b"", "cannot be read as an NPY file"),
        ("w.txt", b"1 2 3", r"has the ending '\.txt'; weights are read from"),
    ],
)
def test_damaged_and_unknown_files_are_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DepthrankError, match=message):
        read_weights(tmp_path / name)


def test_npy_under_an_npz_name_is_refused(tmp_path):
    with (tmp_path / "w.npz").open("wb") as stream:
        np.save(stream, np.eye(2))
    with pytest.raises(DepthrankError, match="cannot be read as an NPZ file"):
        read_weights(tmp_path / "w.npz")


def test_truncated_safetensors_is_refused(tmp_path):
    path = tmp_path / "w.safetensors"
    save_file({"W": np.eye(4)}, path)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(DepthrankError, match="cannot be read as a safetensors file"):
        read_weights(path)


def test_pickled_objects_are_never_loaded(tmp_path):
    objects = np.array([{"a": 1}], dtype=object)
    np.savez(tmp_path / "w.npz", fine=np.eye(2), bad=objects)
    with pytest.raises(DepthrankError, match=r"array 'bad'\) cannot be read .* numbers"):
        read_weights(tmp_path / "w.npz")
    np.save(tmp_path / "w.npy", objects)
    with pytest.raises(DepthrankError, match="cannot be read as an NPY file of numbers"):
        read_weights(tmp_path / "w.npy")


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(DepthrankError, match=r"none\.npz does not exist"):
        read_weights(tmp_path / "none.npz")
    with pytest.raises(DepthrankError, match="is a folder without"):
        read_weights(tmp_path)


def test_hugging_face_folder_is_read_by_its_index_or_whole(tmp_path, arrays):
    names = list(arrays)
    save_file({n: arrays[n] for n in names[:2]}, tmp_path / "model-1.safetensors")
    save_file({n: arrays[n] for n in names[2:]}, tmp_path / "model-2.safetensors")
    assert set(read_weights(tmp_path)) == set(names)
    index = {"weight_map": dict.fromkeys(names[2:], "model-2.safetensors")}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert set(read_weights(tmp_path)) == set(names[2:])


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ({"weight_map": {"W": "../w.safetensors"}}, "names files outside its folder"),
        ({"weights": {}}, "is no index of weights"),
        ([], "is no index of weights"),
    ],
)
def test_index_of_a_folder_is_checked(tmp_path, index, message):
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(DepthrankError, match=message):
        read_weights(tmp_path)


def test_folder_with_a_name_twice_is_refused(tmp_path):
    for name in ("a", "b"):
        save_file({"W": np.eye(2)}, tmp_path / f"{name}.safetensors")
    with pytest.raises(DepthrankError, match=r"holds 'W' twice, the second time in b\.safetensors"):
        read_weights(tmp_path)


def test_baseline_ratio_and_excess_stand_beside():
    W = np.random.default_rng(0).normal(size=(60, 90))
    row, flat = layer_table({"random": W, "flat": np.eye(9)})
    assert row["ratio"]["effective_rank"] == pytest.approx(1, abs=0.01)
    assert flat["excess"]["effective_rank"] == pytest.approx(9 - flat["baseline"]["effective_rank"])


def test_tied_arrays_are_measured_once():
    W = np.random.default_rng(0).normal(size=(3, 4))
    first, second, copy = layer_table({"a": W, "b": W, "c": W.copy()})
    assert first["status"] == copy["status"] == "measured"
    assert (second["status"], second["reason"]) == ("skipped", "tied: the weights of 'a' once more")


def test_comparison_measures_the_change():
    rng = np.random.default_rng(1)
    a = rng.normal(size=(6, 5))
    u, v = rng.normal(size=6), rng.normal(size=5)
    before = {"W": a, "gone": np.eye(2), "shape": np.eye(2), "b": np.ones(3)}
    after = {"W": a + np.outer(u, v), "new": np.eye(2), "shape": np.eye(3), "b": np.ones(3)}
    rows = {row["name"]: row for row in compare_weights(before, after)}
    W = rows["W"]
    assert W["change"]["effective_rank"] == pytest.approx(1)
    far = np.linalg.norm(u) * np.linalg.norm(v) / np.linalg.norm(a)
    assert W["distance"] == pytest.approx(far)
    assert W["before"]["stable_rank"] == pytest.approx(float(spectra.stable_rank(a)))
    assert [rows[n]["status"] for n in ("gone", "new", "shape")] == ["unmatched"] * 3
    assert rows["b"]["status"] == "skipped"


def test_rows_agree_with_the_measures(arrays):
    W = arrays["head.weight"]
    (row,) = layer_table({"W": W})
    assert row["name"] == "W"
    assert row["shape"] == row["matrix_shape"] == [7, 5]
    assert row["max_rank"] == 5
    assert row["stable_rank"] == pytest.approx(float(spectra.stable_rank(W)), rel=1e-6)
    assert row["effective_rank"] == pytest.approx(float(spectra.effective_rank(W)), rel=1e-6)
    assert row["effective_rank_power2"] == pytest.approx(
        float(spectra.effective_rank(W, power=2)), rel=1e-6
    )
    assert row["numerical_rank"] == 5
    assert row["tolerance"] == pytest.approx(7 * np.finfo(np.float32).eps)
    assert row["normalised"] == {key: row[key] / 5 for key in MEASURES}
    assert (row["status"], row["reason"]) == ("measured", None)


def test_rows_are_plain_json(arrays):
    rows = layer_table(arrays)
    assert json.loads(json.dumps(rows)) == rows
    assert [row["name"] for row in rows] == list(arrays)


def test_rk05_tolerance_used_is_reported():
    W = np.diag([1.0, 1e-3])
    assert [
        (row["numerical_rank"], row["tolerance"])
        for tol in (None, 1e-2)
        for row in layer_table({"W": W}, tol=tol)
    ] == [(2, 2 * np.finfo(float).eps), (1, 1e-2)]


def test_rk13_convolution_is_out_by_rest():
    matrix = np.random.default_rng(0).normal(size=(2, 3))
    conv, plain = layer_table({"conv": matrix.reshape(2, 3, 1, 1), "plain": matrix})
    assert conv["shape"] == [2, 3, 1, 1]
    assert conv["matrix_shape"] == [2, 3]
    assert [conv[key] for key in MEASURES] == [plain[key] for key in MEASURES]


def test_rk13_other_axis_by_option():
    kernel = np.random.default_rng(0).normal(size=(3, 3, 2, 5))  # height, width, in, out
    flax, torch = (
        layer_table({"k": kernel}, out_axis=-1),
        layer_table({"k": kernel.transpose(3, 2, 0, 1)}),
    )
    assert flax[0]["matrix_shape"] == torch[0]["matrix_shape"] == [5, 18]
    assert flax[0]["effective_rank"] == pytest.approx(torch[0]["effective_rank"], rel=1e-12)


def test_rk15_every_layer_has_its_row_beside_the_mean():
    rng = np.random.default_rng(0)
    weights = {"a": np.eye(10), "b": np.zeros((10, 10)), "c": rng.normal(size=(10, 5))}
    rows = layer_table(weights)
    assert [row["max_rank"] for row in rows] == [10, 10, 5]
    assert [row["stable_rank"] for row in rows[:2]] == pytest.approx([10, 0])
    assert [row["normalised"]["stable_rank"] for row in rows[:2]] == pytest.approx([1, 0])
    total = summary(rows)
    assert total["mean"]["stable_rank"] == pytest.approx((10 + rows[2]["stable_rank"]) / 3)
    assert total["mean_normalised"]["numerical_rank"] == pytest.approx(2 / 3)


def test_rk16_nan_layer_is_named_and_the_others_go_on():
    weights = {"a": np.eye(3), "b": np.array([[1, np.nan], [2, 3]]), "c": np.eye(2)}
    a, b, c = rows = layer_table(weights)
    assert a["effective_rank"] == pytest.approx(3)
    assert c["effective_rank"] == pytest.approx(2)
    assert b["status"] == "failed"
    assert "NaN at (0, 1)" in b["reason"]
    assert b["stable_rank"] is None
    total = summary(rows)
    assert (total["layers"], total["measured"], total["failed"]) == (3, 2, 1)
    assert total["mean"]["effective_rank"] == pytest.approx(2.5)


def test_vectors_scalars_and_empty_arrays_are_skipped_with_reason():
    rows = layer_table({"bias": np.ones(4), "step": np.array(3), "none": np.ones((0, 4))})
    assert [row["status"] for row in rows] == ["skipped"] * 3
    assert [row["reason"].split(";")[0] for row in rows] == ["a vector", "a scalar", "empty"]
    assert summary(rows)["mean"] is None


def test_text_layer_fails_alone():
    text, fine = layer_table({"names": np.array([["a", "b"]]), "W": np.eye(2)})
    assert text["status"] == "failed"
    assert "must hold real numbers" in text["reason"]
    assert fine["status"] == "measured"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tol": 2.0}, r"tol is 2\.0; it is relative to s_1"),
        ({"out_axis": 3}, r"out_axis is 3; array 'k' has 3 axes"),
    ],
)
def test_options_are_validated(options, message):
    with pytest.raises(DepthrankError, match=message):
        layer_table({"k": np.ones((2, 2, 2))}, **options)
