# SPDX-License-Identifier: MIT
"""pandas: groupby, merge, apply with Python functions, rolling windows, CSV in memory."""
import io

REQUIRES = ["pandas"]
NATIVE = r"^blas_thread_server"
WITHIN = {r"\(parsers\.": r"c_parser_wrapper|^read\b|^__init__\b|parsers"}


def score(row):
    return row["a"] * 2 + len(row["name"])


def aggregate(group):
    return group["a"].mean() - group["b"].max()


def setup():
    global pandas, FRAME, TEXT
    import numpy
    import pandas
    rng = numpy.random.default_rng(1)
    FRAME = pandas.DataFrame({"k": rng.integers(0, 500, 50000), "a": rng.random(50000), "b": rng.random(50000),
                              "name": [f"n{i % 977}" for i in range(50000)]})
    TEXT = FRAME.head(10000).to_csv(index=False)


def work():
    FRAME.groupby("k").agg({"a": "mean", "b": ["sum", "std"]})
    FRAME[["k", "a", "b"]].groupby("k")[["a", "b"]].apply(aggregate)
    FRAME.head(2000).apply(score, axis=1)
    FRAME.merge(FRAME.head(500), on="k").sort_values(["a_x", "name_y"])
    FRAME["a"].rolling(50).mean()
    FRAME["name"].str.upper().value_counts()
    pandas.read_csv(io.StringIO(TEXT))
