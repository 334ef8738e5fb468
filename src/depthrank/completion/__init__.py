"""Filling a table: the scikit-learn estimator and what it stands on.

`estimator` is the face, `model` what a fit leaves behind, `selection` how depth, decay, offsets
and stopping are chosen, `offsets` how a table is centred and scaled, `foldin` how new rows meet a
fitted model, `fitting` the call of the flow, `model_file` the file it is kept in.
"""
