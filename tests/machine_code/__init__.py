"""What a GPU really runs: kernels compiled for NVIDIA devices, their machine code executed warp by warp without a GPU.

    loopy program -> CUDA source -> cubin -> instructions -> a warp's walk through them -> counts

:func:`machine_code.launch.build` goes the first half of the way, :meth:`machine_code.launch.Launch.run` the second.
"""
