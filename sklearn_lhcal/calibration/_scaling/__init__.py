"""Scaling of logits, u' = W u + b.

`maps` are the families and fitted transforms, `fit` the search for the least log loss,
`stack` mixtures of them, and `scalings` the public classes.
"""
