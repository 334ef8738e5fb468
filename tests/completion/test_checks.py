"""scikit-learn's own checks, all of them, with no failure expected."""

import os
import subprocess
import sys
from typing import Any

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from depthrank.completion.estimator import DeepMatrixCompletion

# Needs an environment variable that SciPy reads when it is imported: see below.
ELSEWHERE = "check_array_api_input"


def name_of(check: Any) -> str:
    return str(getattr(check, "func", check).__name__)


CHECKS = [check for _, check in estimator_checks_generator(DeepMatrixCompletion())]
HERE = [check for check in CHECKS if name_of(check) != ELSEWHERE]


@pytest.mark.parametrize("check", HERE, ids=name_of)
def test_sk01_passes_the_checks_of_scikit_learn(check):
    check(DeepMatrixCompletion())


def test_sk01_passes_the_check_that_needs_the_array_api():
    code = (
        "from tests.completion.test_checks import CHECKS, ELSEWHERE, name_of\n"
        "from depthrank.completion.estimator import DeepMatrixCompletion\n"
        "ran = [c(DeepMatrixCompletion()) for c in CHECKS if name_of(c) == ELSEWHERE]\n"
        "print(len(ran))"
    )
    env = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=env, text=True)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


def test_sk01_there_were_checks_to_pass():
    assert len(HERE) >= 45
