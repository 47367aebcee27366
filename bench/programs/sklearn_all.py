# SPDX-License-Identifier: MIT
"""scikit-learn's estimators, one after the other: Cython, OpenMP and BLAS."""

REQUIRES = ["scikit-learn"]
NATIVE = r"gomp|^blas_thread_server|^gomp_thread_start"


def setup():
    global np, KMeans, DBSCAN, HistGradientBoostingRegressor, RandomForestRegressor, Lasso, SGDRegressor, TSNE, \
        KNeighborsClassifier, SVR, x, y
    import numpy as np
    import warnings
    warnings.simplefilter("ignore")
    from sklearn.cluster import KMeans, DBSCAN
    from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
    from sklearn.linear_model import Lasso, SGDRegressor
    from sklearn.manifold import TSNE
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.svm import SVR
    r = np.random.RandomState(1)
    x = r.rand(3000, 20)
    y = x @ r.rand(20) + r.rand(3000)


def work():
    KMeans(8, n_init=3, random_state=1).fit(x)
    HistGradientBoostingRegressor(max_iter=30).fit(x, y)
    RandomForestRegressor(10, n_jobs=1).fit(x[:1000], y[:1000])
    Lasso(0.0001, max_iter=2000).fit(x.astype("float32"), y.astype("float32"))
    Lasso(0.0001, max_iter=2000).fit(x, y)
    SGDRegressor(max_iter=20, tol=None).fit(x, y)
    KNeighborsClassifier(5, algorithm="brute").fit(x, y > 5).predict(x)
    KNeighborsClassifier(5, algorithm="ball_tree").fit(x, y > 5).predict(x[:500])
    DBSCAN(0.5, algorithm="kd_tree").fit(x[:1000, :3])
    SVR(max_iter=300).fit(x[:1000], y[:1000])
    TSNE(perplexity=20, max_iter=250).fit_transform(x[:300])
