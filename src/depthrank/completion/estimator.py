"""The scikit-learn estimator: a table with holes goes in, a completed one comes out."""

import time
import warnings
from collections.abc import Callable
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from depthrank.completion.answers import Answers
from depthrank.completion.model import hidden_cell_rmse, model_of
from depthrank.completion.reading import check_parameters, draw_seed, read_table, settings
from depthrank.completion.reporting import report
from depthrank.completion.selection import fit
from depthrank.completion.updating import Updating
from depthrank.errors import DepthrankError
from depthrank.graph import Connectivity
from depthrank.initialization import Start
from depthrank.observations import Observations

Floats = NDArray[np.float64]


class DeepMatrixCompletion(Answers, Updating, TransformerMixin, BaseEstimator):
    """Complete a table by deep matrix factorisation.

    The prepared table (offsets off, root mean square 1) is fitted by the gradient flow of a
    product of `depth` factors from a tiny start, which prefers low rank although nothing
    restricts it. What the data leave open (depth, decay, offsets, when to stop) is chosen on
    held-out cells and then fitted to all.

    Parameters
    ----------
    depth : int or "auto", default "auto"
        Number of factors. With "auto", and nothing else fixed about the flow, the answer is what
        held-out cells favour of depth 2 with learned decay, averaged over what the data leave
        open (noisy tables), an exact fit of low rank (clean ones) and the flow of depth 3 from a
        tiny start (`depthrank.completion.automatic`). Where no cells are held out it is 3. With a
        number the answer is the end of the flow of that depth.
    width : int, optional
        Hidden width, which bounds the rank. Default min(m, n), at most 128. More than min(m, n)
        is cut down to that, with a warning.
    init : callable, optional
        A start such as ``AlphaM(alpha=1e-2, m=2.0)``, in units of the prepared table. Default:
        `Gaussian` of size `init_scale`.
    init_scale : float or "auto", default "auto"
        Frobenius norm of the end-to-end matrix at the start, relative to the root mean square of
        the prepared observed cells. "auto": 1e-6, and 1e-2 to try depth 3 and more where cells
        are plentiful, which saves time and loses nothing.
    weight_decay : float or "auto", default "auto"
        The decay lambda of the loss, for the prepared table. "auto": chosen on held-out cells at
        depth 2, 0 otherwise.
    offsets : {"auto", "none", "rows", "columns", "both"}, default "auto"
        Shrunken row and column effects that are taken off first. "auto": none for tables that are
        clean without, otherwise those that explain held-out cells best; none where no cells are
        held out.
    scaling : {"auto", "table", "columns", "none"}, default "auto"
        Divide by the root mean square of the table or of each column. "auto": by columns if their
        sizes differ by more than a thousand. "none" is for research: start and tolerance are then
        relative to nothing, and the answer depends on units.
    validation_fraction : float or "auto", default "auto"
        Share of the observed cells held out while choosing. "auto": 0.1, down to 0.05 where
        there are fewer than 30 cells a row and column; nothing for tables of less than 100 cells.
        With 0 nothing is chosen and the flow runs to its end, which fits noise too.
    tol : float, default 1e-10
        Fitted once the mean squared residual is below this part of the mean square.
    missing : scalar or sequence, default NaN
        Further values that mark a missing cell in dense input. NaN and None always do; in sparse
        input, cells that are not stored.
    duplicates : {"mean", "error", "first", "last"}, default "mean"
        Value of a cell that sparse input stores more than once.
    bounds : (float, float), optional
        Estimates are cut to this range, (1, 5) for stars. Observed cells stay as given.
    integers : bool, default False
        Estimates are rounded to whole numbers. `evaluate` and the report give the errors of the
        estimates as they are, `evaluate` also those within bounds and rounded.
    max_seconds : float, optional
        Time for choosing and fitting; when it is over the best state so far is kept.
    dtype : {"float64", "float32"}, default "float64"
        Precision of the final flow. Results are float64.
    random_state : int, RandomState or None, default None
        Seed of start and held-out cells. None draws one; it is in the report.
    verbose : int, default 0
        1 writes progress to standard error.
    progress : callable, optional
        Called with a `depthrank.dynamics.flow.Progress` a few times a second.

    Attributes
    ----------
    factors_ : tuple of arrays
        (W_1, ..., W_L) of the prepared table, W_1 acts first.
    trajectory_ : Trajectory
        The final flow.
    report_ : dict
        What was found, chosen and measured; plain types, ready for JSON.
    seed_ : int
        Seed that was used.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    **Rows.** `transform` keeps observed cells as given and fills the others. A row that agrees
    with a training row, cell by cell, holes included, is filled as in training, so
    `fit_transform(X)` equals `fit(X).transform(X)`; any other row is folded in by itself, by
    regularised least squares on the learned column space, whatever else is in the call.

    **Fallbacks.** Where nothing is known there is no estimate: a cell of an empty row gets the
    column mean, of an empty column the row mean, of both the overall mean, and `determination_`
    says "isolated". Cells across unconnected parts of the table are filled by the model and
    labelled "across": they follow from depth and start alone.

    Examples
    --------
    >>> import numpy as np
    >>> from depthrank import DeepMatrixCompletion
    >>> X = np.array([[1.0, 2.0, 3.0], [2.0, np.nan, 6.0], [3.0, 6.0, 9.0]])
    >>> np.round(DeepMatrixCompletion(random_state=0).fit_transform(X)[1], 3)
    array([2., 4., 6.])
    """

    def __init__(
        self,
        depth: int | str = "auto",
        *,
        width: int | None = None,
        init: Start | None = None,
        init_scale: float | str = "auto",
        weight_decay: float | str = "auto",
        offsets: str = "auto",
        scaling: str = "auto",
        validation_fraction: float | str = "auto",
        tol: float = 1e-10,
        missing: Any = np.nan,
        duplicates: str = "mean",
        bounds: tuple[float, float] | None = None,
        integers: bool = False,
        max_seconds: float | None = None,
        dtype: str = "float64",
        random_state: Any = None,
        verbose: int = 0,
        progress: Callable[[Any], None] | None = None,
    ) -> None:
        self.depth = depth
        self.width = width
        self.init = init
        self.init_scale = init_scale
        self.weight_decay = weight_decay
        self.offsets = offsets
        self.scaling = scaling
        self.validation_fraction = validation_fraction
        self.tol = tol
        self.missing = missing
        self.duplicates = duplicates
        self.bounds = bounds
        self.integers = integers
        self.max_seconds = max_seconds
        self.dtype = dtype
        self.random_state = random_state
        self.verbose = verbose
        self.progress = progress

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the table.

        Parameters
        ----------
        X : array_like, frame, scipy sparse or Observations, [m, n]
            The table; not changed.
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        DepthrankError
            If a parameter is out of its range, or `X` has no observed cell, holds infinity or
            text, or needs more memory than there is.
        """
        clock = time.perf_counter()
        check_parameters(self)
        observations = read_table(self, X, reset=True)
        if not observations.n_observed:
            m, n = observations.shape
            raise DepthrankError(f"no cell of the {m} x {n} table is observed; one is needed.")
        self.seed_ = draw_seed(self.random_state)
        wish, engine = settings(self, observations.shape)
        done = fit(observations, engine, wish)
        self._model = model_of(observations, done)
        self.factors_, self.trajectory_ = done.trajectory.factors, done.trajectory
        self.report_ = report(self._model, done, engine, wish)
        self.report_["seconds"] = time.perf_counter() - clock
        return self

    def transform(self, X: Any) -> Floats:
        """Fill the missing cells of a table with the same columns; see Notes of the class.

        Parameters
        ----------
        X : array_like, frame, scipy sparse or Observations, [k, n]

        Returns
        -------
        float64 [k, n]
            Observed cells exactly as given.

        Raises
        ------
        DepthrankError
            If the columns differ from those of the fit, or `X` holds infinity or text.
        """
        check_is_fitted(self)
        return self._filled(X)

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Floats:
        """Fit the table and return it completed: `fit(X).transform(X)`.

        Parameters
        ----------
        X : array_like, frame, scipy sparse or Observations, [m, n]
        y, **fit_params : ignored

        Returns
        -------
        float64 [m, n]
        """
        return self.fit(X).complete()

    def complete(self) -> Floats:
        """Return the fitted table completed, [m, n]; memory is checked first."""
        check_is_fitted(self)
        return self._kept(self._model.completed(), self._model.observations)

    def predict(self, rows: Any, cols: Any = None, *, strict: bool = False) -> Floats:
        """Return the model's estimate of single cells, observed ones included.

        Parameters
        ----------
        rows, cols : sequence, [k]
            Labels where the fitted table had them, positions from 0 otherwise. With `rows` alone,
            a dense table: the same as `transform`, as scikit-learn's tools expect.
        strict : bool, default False
            Refuse unknown labels. Otherwise they get a fallback and a warning that counts them:
            the column's mean for an unknown row, the row's for an unknown column, the overall
            mean for both. `cell_labels` says which.

        Returns
        -------
        float64 [k]

        Raises
        ------
        DepthrankError
            If a position is out of range, or, if strict, a label unknown.
        """
        check_is_fitted(self)
        if cols is None:
            if type(rows).__module__.startswith("scipy.sparse"):
                raise DepthrankError(
                    "predict takes rows and cols; to fill a sparse table use transform."
                )
            return self._filled(rows)
        i, j = self._positions(rows, cols, strict)
        unseen = (i < 0) | (j < 0)
        if unseen.any():
            first = int(np.argmax(unseen))
            what = "row" if i[first] < 0 else "column"
            label = list(rows if i[first] < 0 else cols)[first]
            warnings.warn(
                f"{int(unseen.sum())} of {len(i)} cells have an unseen row or column, the first "
                f"{what} {label!r}; they get the mean of what is known.",
                stacklevel=2,
            )
        return self._limited(self._model.cells(i, j))

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the root mean squared error on cells that are hidden in turn.

        Of each row of `X` the observed cells are dealt into five parts; each part is hidden and
        estimated from the others by folding in. So rows that the fit never saw are judged by
        cells that their estimate never saw, which is what a grid search needs. (On training rows
        the column space has seen the hidden cells.) Rows with one observed cell do not count.

        Parameters
        ----------
        X : array_like, frame, scipy sparse or Observations, [k, n]
        y : ignored

        Returns
        -------
        float
            In the units of `X`; NaN if no row has two observed cells.
        """
        check_is_fitted(self)
        return -hidden_cell_rmse(self._model, read_table(self, X, reset=False))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the fitted model to a `.depthrank` file; `depthrank.completion.model_file`."""
        from depthrank.completion.model_file import save

        save(self, path)

    @staticmethod
    def load(path: str | PathLike[str]) -> "DeepMatrixCompletion":
        """Read what `save` wrote: a fitted estimator, without its `trajectory_`."""
        from depthrank.completion.model_file import load

        return load(path)

    @property
    def determination_(self) -> NDArray[np.int8]:
        """Code of each cell, [m, n]: see `depthrank.completion.determine.LABELS`."""
        check_is_fitted(self)
        return self._model.determination.table()

    @property
    def connectivity_(self) -> Connectivity:
        """Connected parts of the table, bridges, rows with too few cells for a rank."""
        check_is_fitted(self)
        return self._model.graph

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the column names, which are those of the input."""
        check_is_fitted(self)
        return np.asarray(_check_feature_names_in(self, input_features), dtype=object)

    def _filled(self, X: Any) -> Floats:
        table = read_table(self, X, reset=False)
        return self._kept(self._model.filled(table), table)

    def _kept(self, filled: Floats, table: Observations) -> Floats:
        """Return estimates within bounds, observed cells as given."""
        filled = self._limited(filled)
        filled[table.rows, table.cols] = table.values
        return filled

    def __sklearn_is_fitted__(self) -> bool:
        """Tell scikit-learn whether there is a model."""
        return hasattr(self, "_model")

    def __sklearn_tags__(self) -> Tags:
        """Tell scikit-learn what input is fine."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags
