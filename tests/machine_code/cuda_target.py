"""Preprocess and linearize Loopy programs for CUDA."""

import loopy as lp

from loopyperf.compiler.cuda_code import for_cuda


def linearized(program: lp.TranslationUnit) -> lp.TranslationUnit:
    """Return *program* for CUDA, preprocessed and linearized."""
    unit = for_cuda(program)
    if unit.default_entrypoint.linearization is not None:
        return unit
    return lp.linearize(lp.infer_unknown_types(lp.preprocess_program(unit), expect_completion=True))
