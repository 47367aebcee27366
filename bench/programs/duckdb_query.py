# SPDX-License-Identifier: MIT
"""DuckDB: joins, windows and sorts in its own threads, some calling a Python function."""
REQUIRES = ["duckdb", "numpy"]
PYTHON = "3.12.1"
NATIVE = r"duckdb|std::|libstdc\+\+"


def twice(value):
    return value * 2


def setup():
    global DB
    import duckdb
    DB = duckdb.connect()
    DB.execute("set threads = 2")
    DB.execute("create table t as select range as a, hash(range) % 1000 as k, 'name ' || (range % 5000) as n "
               "from range(300000)")
    DB.create_function("twice", twice, ["BIGINT"], "BIGINT")


def work():
    DB.execute("select k, avg(a), count(distinct n) from t group by k").fetchall()
    DB.execute("select a, row_number() over (partition by k order by n) from t").fetchnumpy()
    DB.execute("select sum(x.a) from t x join t y on x.a = y.k").fetchall()
    DB.execute("select * from t where regexp_matches(n, '.*7.?1') order by n, a").fetchnumpy()
    DB.execute("select sum(twice(a)) from t where a < 20000").fetchall()
