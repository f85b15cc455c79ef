"""Count executed instructions of compiled kernels: execute their machine code warp by warp on the CPU.

    Loopy program -> CUDA source -> cubin -> instructions -> execution of a warp -> counts

:func:`machine_code.launch.build` does the steps up to the instructions, :meth:`machine_code.launch.Launch.run` the
others.
"""
