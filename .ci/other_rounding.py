"""Plugin of pytest: products and functions are rounded as another processor might.

Each product of matrices, factorisation and transcendental function of the package ends up to
ROUNDING units in the last place away (default 3). How far is a function of the value and of SALT:
equal values stay equal, so what is the same by construction stays the same. Tests that fail held
two routes to the last digit, or a fit that stops where rounding says.
"""

import ast
import os
import sys
from importlib.machinery import PathFinder, SourceFileLoader

import numpy as np
import torch

SALT = int(os.environ.get("SALT", "1"))
ULPS = int(os.environ.get("ROUNDING", "3"))
NAMES = """
    dot matmul einsum tensordot vdot inner outer mm bmm addmm mv baddbmm cdist pdist
    cholesky solve eigh eigvalsh svd qr lstsq pinv inv det slogdet solve_triangular cho_solve
    cho_factor cholesky_solve norm
    exp log log1p expm1 cbrt sin cos tanh arctan power float_power logsumexp logaddexp softmax
    log_softmax log_expit expit logit sigmoid softplus logcumsumexp
    gammaln loggamma lgamma gamma digamma psi polygamma betaln beta betainc betaincinv gammainc
    gammaincinv ndtr ndtri log_ndtr erf erfc erfcx xlogy entr rel_entr kl_div
"""
ROUNDED = set(NAMES.split())
FLOATS = (torch.float32, torch.float64)
INTEGER = {4: np.int32, 8: np.int64}


def moved(x):
    """An array with other last digits.

    Short fractions, 0 and what is not finite stay, and no value leaves its binade: none passes 1.
    """
    integer = INTEGER[x.dtype.itemsize]
    bits = np.ascontiguousarray(x).view(integer).reshape(x.shape)
    digits = integer(2 ** {4: 8, 8: 24}[x.dtype.itemsize] - 1)
    with np.errstate(over="ignore"):
        mixed = bits * integer(1103515245) + integer(SALT * 40503)
        mixed = (mixed ^ (mixed >> integer(13))) * integer(69069)
    step = (mixed >> integer(9)) % integer(2 * ULPS + 1) - integer(ULPS)
    exact = (bits & digits == 0) | ~np.isfinite(x) | (np.abs(x) < 1e-30)
    binade = integer({4: 23, 8: 52}[x.dtype.itemsize])
    leaves = bits >> binade != (bits + step) >> binade
    return np.where(exact | leaves, bits, bits + step).astype(integer).view(x.dtype)


def rounded(x):
    """What a wrapped call returns."""
    if type(x) is tuple:
        return tuple(map(rounded, x))
    if type(x) in (np.float32, np.float64):
        return moved(np.array([x]))[0]
    # A view may be written through.
    if type(x) is np.ndarray and x.dtype in (np.float32, np.float64) and x.base is None:
        return moved(x)
    if type(x) is torch.Tensor and x.device.type == "cpu" and x.dtype in FLOATS:
        change = torch.from_numpy(moved(x.detach().numpy())) - x.detach()
        return x + change.nan_to_num(0.0)
    return x


class Wrapper(ast.NodeTransformer):
    """``f(x)`` becomes ``__rounded__(f(x))`` for all names above, ``A @ B`` likewise."""

    def wrapped(self, node):
        call = ast.Call(ast.Name("__rounded__", ast.Load()), [node], [])
        return ast.copy_location(call, node)

    def visit_BinOp(self, node):
        self.generic_visit(node)
        return self.wrapped(node) if isinstance(node.op, ast.MatMult) else node

    def visit_Call(self, node):
        self.generic_visit(node)
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        written = any(keyword.arg == "out" for keyword in node.keywords)
        return self.wrapped(node) if name in ROUNDED and not written else node


class Loader(SourceFileLoader):
    """Reads the source, whatever was compiled before."""

    def get_code(self, fullname):
        path = self.get_filename(fullname)
        tree = Wrapper().visit(ast.parse(self.get_data(path), path))
        return compile(ast.fix_missing_locations(tree), path, "exec")

    def exec_module(self, module):
        module.__rounded__ = rounded
        super().exec_module(module)


class Finder(PathFinder):
    """Finds the package's modules before others do."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] != "sklearn_lhcal":
            return None
        spec = super().find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = Loader(spec.loader.name, spec.loader.path)
        return spec


sys.meta_path.insert(0, Finder)
