"""The estimator's side of an update: `partial_fit`."""

from typing import TYPE_CHECKING, Any, Self, cast

if TYPE_CHECKING:
    from depthrank.completion.estimator import DeepMatrixCompletion


class Updating:
    """What lets a fitted completion take in more data."""

    def partial_fit(self, X: Any, y: Any = None, *, strategy: str = "auto") -> Self:
        """Take in new data: corrected values, new cells, new rows, new columns.

        Parameters
        ----------
        X : frame, Observations, array_like or scipy sparse
            Frames and Observations are matched by their labels (by position, where neither they nor
            the fitted table have any): known cells take the newest value, unknown labels become new
            rows and columns. Arrays and sparse matrices are further rows, as elsewhere in
            scikit-learn. A first call is `fit`.
        y : ignored
        strategy : {"auto", "warm", "shrink", "add-depth", "cold"}, default "auto"
            "warm" resumes; "shrink" and "add-depth" treat the factors first, "cold" starts over.
            "auto" goes by `depthrank.plasticity_report` and by new cells kept aside.

        Returns
        -------
        self
            `report_` also holds `strategy`, `reasons`, `warm_stable_rank_bound`,
            `predicted_plasticity_loss`, what was new, and what was known `before`.

        Raises
        ------
        DepthrankError
            If `X` is not as described, or the depth asked for is not the model's. The estimator
            is then, and after Ctrl-C, as it was.
        """
        estimator = cast("DeepMatrixCompletion", self)
        if not estimator.__sklearn_is_fitted__():
            estimator.fit(X)
            return self
        from depthrank.completion.update import partial_fit

        partial_fit(estimator, X, strategy)
        return self
