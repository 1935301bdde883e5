"""Dirichlet and Beta kernels: sums of them, smoothing with them, and the errors made of that."""
