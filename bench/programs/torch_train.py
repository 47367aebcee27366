# SPDX-License-Identifier: MIT
"""PyTorch on a CPU: a network is trained, autograd calls back into Python; oneDNN and MKL."""
REQUIRES = ["torch", "numpy"]
PYTHON = "3.12.1"
LEARN = 2
CLOSED = ["MKL"]
NATIVE = r"gomp|libiomp|torch::|at::|c10::|std::|libstdc\+\+|mkl"


def setup():
    global torch, MODEL, OPTIMIZER, X, Y, Double
    import torch
    torch.set_num_threads(2)
    torch.manual_seed(1)

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x * 2

        @staticmethod
        def backward(context, gradient):
            return gradient * 2

    MODEL = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.BatchNorm2d(16),
                                torch.nn.Conv2d(16, 32, 3), torch.nn.Flatten(), torch.nn.Linear(32 * 28 * 28, 10))
    OPTIMIZER = torch.optim.Adam(MODEL.parameters())
    X, Y = torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,))


def work():
    for _ in range(3):
        OPTIMIZER.zero_grad()
        loss = torch.nn.functional.cross_entropy(Double.apply(MODEL(X)), Y)
        loss.backward()
        OPTIMIZER.step()
    torch.randn(200, 200).svd()
    torch.randn(20000).sort()
