"""What scikit-learn's checks leave open: clone, parameters, pickling, docs of the defaults."""

import pickle

import numpy as np
from sklearn.base import clone

import depthrank
from tests.completion.reference import SP09, reference


def test_sk02_clone_is_unfitted_and_equal_in_parameters():
    model = reference(init=depthrank.Gaussian(1e-5), progress=print).fit(SP09)
    copy = clone(model)
    assert not hasattr(copy, "report_")
    given, kept = copy.get_params(), model.get_params()
    assert given.pop("missing") is not None
    kept.pop("missing")
    assert given == kept
    model.set_params(**model.get_params())
    assert model.get_params()["init"] == depthrank.Gaussian(1e-5)


def test_a_pickled_model_answers_the_same():
    model = reference().fit(SP09)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(SP09), model.transform(SP09))
    assert again.report_ == model.report_
