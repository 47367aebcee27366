# SPDX-License-Identifier: MIT
"""onnxruntime: a model of convolutions and matrix products; a stripped library with assembly of its own."""
REQUIRES = ["onnxruntime", "onnx", "numpy"]
NATIVE = r"onnxruntime|std::|libstdc\+\+"
WITHIN = {r"onnxruntime_pybind": r"\(onnxruntime_inference_collection|^work \("}
NEVER = [(r"^work \(", r"onnxruntime_pybind")]


def setup():
    global SESSION, INPUT
    import numpy
    import onnx
    import onnxruntime
    helper, rng = onnx.helper, numpy.random.default_rng(1)
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c"], ["r"]),
             helper.make_node("MatMul", ["r", "m"], ["p"]), helper.make_node("Softmax", ["p"], ["y"])]
    weights = [onnx.numpy_helper.from_array(rng.random(shape, dtype="float32"), name)
               for name, shape in (("w", (32, 16, 3, 3)), ("m", (64, 64)))]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("x", 1, [1, 16, 64, 64])], [value("y", 1, [1, 32, 64, 64])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    SESSION = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    INPUT = {"x": rng.random((1, 16, 64, 64), dtype="float32")}


def work():
    for _ in range(20):
        SESSION.run(None, INPUT)
