"""scikit-learn's own checks, all of them, with no failure expected."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from depthrank.completion.estimator import DeepMatrixCompletion

ran: list[str] = []


@pytest.fixture(autouse=True)
def count(request):
    ran.append(request.node.name)


@pytest.mark.filterwarnings("ignore:.*array_api:UserWarning")
@parametrize_with_checks([DeepMatrixCompletion()])
def test_sk01_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_sk01_the_checks_did_run():
    assert sum("scikit_learn" in name for name in ran) >= 40
