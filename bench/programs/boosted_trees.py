# SPDX-License-Identifier: MIT
"""xgboost and lightgbm: trees in C++ and OpenMP, called by ctypes; an objective in Python."""
REQUIRES = ["xgboost", "lightgbm", "scikit-learn"]
PYTHON = "3.12.1"
NATIVE = r"gomp|^blas_thread_server|xgboost|LightGBM|std::"


def squared(predictions, data):
    return predictions - data.get_label(), numpy.ones_like(predictions)


def setup():
    global numpy, xgboost, lightgbm, X, Y
    import numpy
    import lightgbm
    import xgboost
    rng = numpy.random.default_rng(1)
    X = rng.random((4000, 20))
    Y = X @ rng.random(20) + rng.random(4000)


def work():
    xgboost.train({"max_depth": 5, "nthread": 2}, xgboost.DMatrix(X, Y), 20)
    xgboost.train({"max_depth": 4, "nthread": 1}, xgboost.DMatrix(X, Y), 10, obj=squared)
    lightgbm.train({"verbose": -1, "num_threads": 2}, lightgbm.Dataset(X, Y), 30)
    lightgbm.train({"verbose": -1, "num_threads": 1, "objective": squared}, lightgbm.Dataset(X, Y), 10)
