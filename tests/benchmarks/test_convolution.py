"""The convolution kernel of the benchmarks equals NumPy's result, including the edges of the image."""

import numpy as np
import pyopencl as cl
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from parts.convolution import Shape, convolution, filter_taps


@pytest.mark.parametrize("shape", [Shape((4, 8), (2, 3)), Shape((16, 2), (1, 1))])
def test_each_output_is_the_sum_of_its_taps(shape: Shape):
    width, height, radius = 37, 29, 2
    image = np.random.default_rng(1).uniform(size=(height + 2 * radius, width + 2 * radius)).astype(np.float32)
    kernel = convolution(shape, width, height, radius).executor(cl.create_some_context(interactive=False))
    with cl.CommandQueue(kernel.context) as queue:
        _, (found,) = kernel(queue, image=image)
        taps = filter_taps(2 * radius + 1)
        windows = sliding_window_view(image, taps.shape)
        np.testing.assert_allclose(found, np.einsum("yxab,ab->yx", windows, taps), rtol=1e-5)
