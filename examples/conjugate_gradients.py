"""An application to profile: conjugate gradients for a Laplacian on a grid, with arraycontext on the OpenCL device.

    loopyperf profile --device nvidia-h200,amd-mi300x --parallelize examples/conjugate_gradients.py 512 20

The kernels are those that arraycontext generates: two einsums, and arithmetic and sums of pyopencl's arrays. It was run
with arraycontext of October 2025 (revision b19f6962).
"""

import sys
from importlib import import_module
from typing import Any

import numpy as np
import pyopencl as cl

arraycontext: Any = import_module("arraycontext")  # untyped, and not a dependency of loopyperf


def solve(points: int, iterations: int) -> float:
    """Return the squared residual after *iterations* on a grid of *points* × *points*."""
    context = cl.create_some_context(interactive=False)
    actx: Any = arraycontext.PyOpenCLArrayContext(cl.CommandQueue(context))
    second = actx.from_numpy(2 * np.eye(points) - np.eye(points, k=1) - np.eye(points, k=-1))

    def laplacian(u: Any) -> Any:
        return actx.einsum("ij,jk->ik", second, u) + actx.einsum("ij,jk->ik", u, second)

    right = actx.from_numpy(np.random.default_rng(0).random((points, points)))
    solution, residual, direction = actx.from_numpy(np.zeros((points, points))), right, right
    square = actx.np.sum(residual * residual)
    for _ in range(iterations):
        product = laplacian(direction)
        step = square / actx.np.sum(direction * product)
        solution = solution + step * direction
        residual = residual - step * product
        square, before = actx.np.sum(residual * residual), square
        direction = residual + (square / before) * direction
    return float(actx.to_numpy(square))


if __name__ == "__main__":
    print("squared residual", solve(*map(int, sys.argv[1:] or ("64", "10"))))
