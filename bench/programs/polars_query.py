# SPDX-License-Identifier: MIT
"""polars: group, join and sort in Rust's threads, some of them calling Python functions."""
REQUIRES = ["polars"]
ENVIRONMENT = {"POLARS_MAX_THREADS": "2"}
NATIVE = r"std::|rayon|core::|polars|__rust|tokio"


def bucket(value):
    return int(value * 10)


def setup():
    global polars, FRAME
    import random
    import polars
    rand = random.Random(1)
    FRAME = polars.DataFrame({"k": [rand.randrange(1000) for _ in range(200000)],
                              "a": [rand.random() for _ in range(200000)],
                              "name": [f"n{rand.randrange(5000)}" for _ in range(200000)]})


def work():
    FRAME.group_by("k").agg(polars.col("a").mean(), polars.col("name").n_unique())
    FRAME.lazy().filter(polars.col("a") > 0.5).join(FRAME.lazy().head(5000), on="k").sort("a").collect()
    FRAME.head(20000).with_columns(polars.col("a").map_elements(bucket, return_dtype=polars.Int64))
    FRAME.sort("name", "a")
