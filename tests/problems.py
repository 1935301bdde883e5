"""A function in closed form, as what solvers minimise."""


class Smooth:
    """Value, gradient (p,) and Hessian (p, p) by a function of x (p,), from a start."""

    def __init__(self, function, start):
        self.hessian, self.start = function, start

    def gradient(self, x):
        return self.hessian(x)[:2]

    def coordinates(self, x):
        """x itself."""
        return lambda s: x + s, lambda slope: slope, len(x)
