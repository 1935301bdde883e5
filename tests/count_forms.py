"""One table of counts in every form that is read."""

import numpy as np
import pandas as pd
import polars as pl
import scipy.sparse as sp

COUNTS = [[2, 0, 1], [0, 3, 0], [1, 1, 1], [0, 0, 4]]
NAMES = ["a", "b", "c"]
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]

FORMS = {
    "list": lambda c: [list(map(int, row)) for row in c],
    **{dtype: lambda c, t=dtype: np.array(c, dtype=t) for dtype in INTEGERS},
    "float64": lambda c: np.array(c, dtype=float),
    "float32": lambda c: np.array(c, dtype=np.float32),
    "fortran": lambda c: np.asfortranarray(c),
    "object": lambda c: np.array(c, dtype=object),
    "csr matrix": sp.csr_matrix,
    "csr array": sp.csr_array,
    "coo array": sp.coo_array,
    "pandas": lambda c: pd.DataFrame(c, columns=NAMES),
    "pandas Int64": lambda c: pd.DataFrame(c, columns=NAMES, dtype="Int64"),
    "pandas UInt8": lambda c: pd.DataFrame(c, columns=NAMES, dtype="UInt8"),
    "pandas float": lambda c: pd.DataFrame(c, columns=NAMES, dtype="float64"),
    "pandas sparse": lambda c: pd.DataFrame(c, columns=NAMES).astype(pd.SparseDtype("int64", 0)),
    "polars": lambda c: pl.DataFrame(np.asarray(c, dtype=np.int64), schema=NAMES, orient="row"),
    "polars UInt8": lambda c: pl.DataFrame(
        np.asarray(c, dtype=np.uint8), schema=NAMES, orient="row"
    ),
}
