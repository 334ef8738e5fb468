"""The model file: what is loaded answers as what was saved, and damage is one clear message."""

import json
import zipfile

import numpy as np
import pytest

import depthrank
from depthrank import DepthrankError, Observations
from depthrank.completion import model_file
from depthrank.completion.estimator import DeepMatrixCompletion
from tests.completion.reference import NAN, SP09, reference


@pytest.fixture(scope="module")
def model() -> DeepMatrixCompletion:
    seen = Observations.from_dense(SP09, row_labels=[1, 2, 3, 4], col_labels=["a", "b", "c"])
    return reference(offsets="both", init=depthrank.Gaussian(1e-4), missing=[-1, NAN]).fit(seen)


def test_ws09_a_loaded_model_answers_as_the_saved_one(model, tmp_path):
    path = tmp_path / "m.depthrank"
    model.save(path)
    loaded = DeepMatrixCompletion.load(path)
    new = np.array([[3.0, NAN, 8.0], [1, 2, NAN], [NAN, NAN, NAN]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        np.testing.assert_array_equal(loaded.transform(new), model.transform(new))
    np.testing.assert_array_equal(loaded.complete(), model.complete())
    np.testing.assert_array_equal(
        loaded.predict([3, 1], ["b", "c"]), model.predict([3, 1], ["b", "c"])
    )
    np.testing.assert_array_equal(loaded.determination_, model.determination_)
    assert loaded.report_ == model.report_
    assert loaded.get_feature_names_out().tolist() == ["a", "b", "c"]
    kept = {k: v for k, v in model.get_params().items() if k != "missing"}
    assert {k: v for k, v in loaded.get_params().items() if k != "missing"} == kept
    np.testing.assert_array_equal(loaded.missing, [-1, NAN])
    refitted = loaded.fit(model._model.observations)
    np.testing.assert_array_equal(refitted.complete(), model.complete())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.depthrank"]


def test_an_unfitted_model_is_not_saved(tmp_path):
    with pytest.raises(DepthrankError, match="not fitted"):
        reference().save(tmp_path / "m.depthrank")
    assert not list(tmp_path.iterdir())


def test_labels_and_starts_that_json_cannot_keep_are_refused(tmp_path):
    path = tmp_path / "m.depthrank"
    seen = Observations.from_dense(SP09, row_labels=[("a", i) for i in range(4)])
    with pytest.raises(DepthrankError, match="is a tuple; a model file keeps text"):
        reference().fit(seen).save(path)

    def start(dims: tuple[int, ...], seed: int) -> tuple[np.ndarray, ...]:
        return depthrank.Gaussian(1e-4)(dims, seed)

    with pytest.raises(DepthrankError, match="only depthrank's own starts"):
        reference(init=start).fit(SP09).save(path)
    assert not path.exists()


def edited(path, target, change):
    """Copy a model file with its JSON document changed."""
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(target, "w") as copy:
        document = json.loads(source.read("model.json"))
        change(document)
        copy.writestr("model.json", json.dumps(document))
        copy.writestr("arrays.safetensors", source.read("arrays.safetensors"))
    return target


def test_damaged_files_give_one_clear_message(model, tmp_path):
    path, bad = tmp_path / "m.depthrank", tmp_path / "bad.depthrank"
    model.save(path)
    with pytest.raises(DepthrankError, match="there is no model file"):
        model_file.load(bad)
    whole = path.read_bytes()
    for damaged in (b"", b"no zip", whole[: len(whole) // 2]):
        bad.write_bytes(damaged)
        with pytest.raises(DepthrankError, match="is not a model file, or is damaged"):
            model_file.load(bad)
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(bad, "w") as copy:
        copy.writestr("model.json", source.read("model.json"))
        copy.writestr("arrays.safetensors", source.read("arrays.safetensors")[:-8] + b"\0" * 8)
    with pytest.raises(DepthrankError, match="do not match their checksum"):
        model_file.load(bad)
    edited(path, bad, lambda document: document.update(format=99, depthrank="9.0"))
    with pytest.raises(DepthrankError, match=r"format 99 \(written by depthrank '9.0'\)"):
        model_file.load(bad)
    edited(path, bad, lambda document: document.pop("noise"))
    with pytest.raises(DepthrankError, match=r"is not a complete model file .*noise"):
        model_file.load(bad)
    edited(path, bad, lambda document: document.update(shape=[4, 2]))
    with pytest.raises(DepthrankError, match="is not a complete model file"):
        model_file.load(bad)
