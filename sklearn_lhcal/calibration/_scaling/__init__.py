"""Scaling of logits, u' = W u + b.

`maps` are the families and fitted maps, `fit` the search for the least log loss, `stack` mixtures
of maps, and `estimators` the public classes.
"""
