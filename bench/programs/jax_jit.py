# SPDX-License-Identifier: MIT
"""JAX on a CPU: XLA makes kernels at run time, with matmul, convolution, a scan and a callback into Python."""
REQUIRES = ["jax", "numpy"]
PYTHON = "3.12.1"
ENVIRONMENT = {"JAX_PLATFORMS": "cpu"}
VARIANTS = {what: {"LAB_WHAT": what} for what in ("matmul", "conv", "scan", "callback")}
LEARN = 2
NATIVE = r"xla|tsl::|Eigen::|std::|libstdc\+\+|absl::|llvm::|jaxlib"


def on_host(x):
    return x[::-1].copy()


def setup():
    global STEP
    import os
    import jax
    import jax.numpy as jnp
    import numpy
    square = jnp.asarray(numpy.random.default_rng(1).random((500, 500), dtype="float32"))
    images = jnp.asarray(numpy.random.default_rng(2).random((4, 16, 48, 48), dtype="float32"))
    weights = jnp.asarray(numpy.random.default_rng(3).random((16, 16, 3, 3), dtype="float32"))

    def matmul():
        return jnp.tanh(square @ square).sum()

    def conv():
        return jax.nn.relu(jax.lax.conv(images, weights, (1, 1), "SAME")).sum()

    def scan():
        return jax.lax.scan(lambda carry, row: (jnp.sin(carry) + row, carry.sum()), square[0], square)[0].sum()

    def callback():
        return jax.pure_callback(on_host, jax.ShapeDtypeStruct((500,), "float32"), jnp.cos(square[0])).sum()

    STEP = jax.jit({"matmul": matmul, "conv": conv, "scan": scan, "callback": callback}[os.environ["LAB_WHAT"]])
    STEP().block_until_ready()


def work():
    for _ in range(20):
        STEP().block_until_ready()
