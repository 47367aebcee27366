# SPDX-License-Identifier: MIT
"""sqlite3 with functions, aggregates and collations in Python."""
import sqlite3

WITHIN = {r"^collate \(": r"^(ordered|work) \(", r"^(Mean\.)?step \(": r"^aggregate \("}


def double(value):
    return value * 2


def collate(left, right):
    return (left > right) - (left < right)


class Mean:
    def __init__(self):
        self.total, self.count = 0, 0

    def step(self, value):
        self.total += double(value)
        self.count += 1

    def finalize(self):
        return self.total / self.count


def scalar():
    return BASE.execute("select sum(double(x)) from t").fetchall()


def aggregate():
    return BASE.execute("select mean(x) from t").fetchall()


def ordered():
    return BASE.execute("select name from t order by name collate mine").fetchall()


def joined():
    return BASE.execute("select count(*) from t a, t b where a.x % 50 = b.x % 50").fetchall()


def setup():
    global BASE
    BASE = sqlite3.connect(":memory:")
    BASE.execute("create table t (x integer, name text)")
    BASE.executemany("insert into t values (?, ?)", [(i, f"name{i * 7919 % 1000}") for i in range(1000)])
    BASE.create_function("double", 1, double)
    BASE.create_aggregate("mean", 1, Mean)
    BASE.create_collation("mine", collate)


def work():
    scalar()
    aggregate()
    ordered()
    joined()
