# SPDX-License-Identifier: MIT
"""pyarrow: parquet with dictionaries and snappy, compute functions and group_by."""
import io

REQUIRES = ["pyarrow"]
NATIVE = r"std::|arrow|libstdc\+\+|libarrow|execute_native|thread"
# A local alias is no name.
SHARES = {r"^\.L": (0, 0)}


def setup():
    global pyarrow, parquet, compute, TABLE
    import random
    import pyarrow
    from pyarrow import compute, parquet
    pyarrow.set_cpu_count(2)
    rand = random.Random(1)
    TABLE = pyarrow.table({"k": [rand.randrange(1000) for _ in range(200000)],
                           "a": [rand.random() for _ in range(200000)],
                           "name": [f"name {rand.randrange(50000)}" for _ in range(200000)]})


def work():
    out = io.BytesIO()
    parquet.write_table(TABLE, out, compression="snappy")
    parquet.read_table(io.BytesIO(out.getvalue()))
    TABLE.group_by("k").aggregate([("a", "mean"), ("name", "count_distinct")])
    compute.sort_indices(TABLE, sort_keys=[("name", "ascending")])
