# SPDX-License-Identifier: MIT
"""TensorFlow on a CPU: conv2d, matmul and an LSTM in tf.functions; oneDNN makes kernels at run time."""
REQUIRES = ["tensorflow-cpu"]
ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_NUM_INTRAOP_THREADS": "2", "TF_NUM_INTEROP_THREADS": "2"}
VARIANTS = {what: {"LAB_WHAT": what} for what in ("conv", "matmul", "lstm")}
LEARN = 1
NATIVE = r"PThread::ThreadFn|tsl::|Eigen::|tensorflow::|std::|libstdc\+\+|absl::"
# A kernel alone, or named by nobody.
NEVER = [(r"\.py\)$", r"^\[(unknown|jit)\]"), (r"ThreadFn", r"^\[(unknown|jit)\]")]


def setup():
    global STEP
    import os
    import tensorflow as tf
    tf.random.set_seed(1)
    images, kernel = tf.random.normal([8, 64, 64, 32]), tf.random.normal([3, 3, 32, 32])
    square = tf.random.normal([700, 700])
    if os.environ["LAB_WHAT"] == "lstm":
        model = tf.keras.Sequential([tf.keras.layers.LSTM(64)])
        words = tf.random.normal([16, 30, 32])
        STEP = tf.function(lambda: model(words))
    elif os.environ["LAB_WHAT"] == "matmul":
        STEP = tf.function(lambda: tf.reduce_sum(square @ square))
    else:
        STEP = tf.function(lambda: tf.reduce_sum(tf.nn.relu(tf.nn.conv2d(images, kernel, 1, "SAME"))))
    STEP()


def work():
    for _ in range(10):
        STEP()
