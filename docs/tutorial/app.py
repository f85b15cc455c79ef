# app.py
"""A wave on a line: two kernels per time step, executed by Loopy's C target on the processor."""

import sys

import loopy as lp
import numpy as np


def kernel(name, statement, arrays):
    return lp.make_kernel(
        "{[i]: 1 <= i < n - 1}",
        statement,
        [lp.GlobalArg(arrays, np.float64, shape="n"), lp.ValueArg("n", np.int32)],
        name=name,
        assumptions="n >= 3",
        target=lp.ExecutableCTarget(),
        lang_version=(2018, 2),
    ).executor()


def simulate(n, steps):
    accelerate = kernel("accelerate", "v[i] = v[i] + 0.1*(u[i - 1] - 2*u[i] + u[i + 1])", "u,v")
    move = kernel("move", "u[i] = u[i] + 0.1*v[i]", "u,v")
    u, v = np.exp(-(np.linspace(-9, 9, n) ** 2)), np.zeros(n)
    for _ in range(steps):
        accelerate(u=u, v=v)
        move(u=u, v=v)
    return u


if __name__ == "__main__":
    simulate(n=2**22, steps=int(sys.argv[1]) if len(sys.argv) > 1 else 10)
