"""A program as a backend runs it: with the arguments that somebody has for it, and others that are made up."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import loopy as lp
import numpy as np
from loopy.translation_unit import TranslationUnit
from loopy.types import LoopyType

from loopyperf.errors import ParameterError
from loopyperf.kernel import Kernel, Program, as_translation_unit
from loopyperf.measurement.backends.interface import Case
from loopyperf.measurement.configuration import Arguments, Array, Configuration, Sizes
from loopyperf.measurement.made_arguments import made_arguments
from loopyperf.oracle.analysis import admitted_sizes, prepared


def made_case(
    program: Program,
    sizes: Mapping[str, Any],
    arguments: Mapping[str, Any] | None = None,
    label: str = "",
    check: Callable[[Mapping[str, Array]], None] | None = None,
) -> Case:
    """Return *program* at *sizes* with *arguments*, and others that are made up, to be run on a backend.

    What it writes is given to *check*; without one, it can only be run in parts, whose results nobody knows.

    Raises :class:`ParameterError` for sizes and arguments that the kernel does not take, and :class:`KernelError` for
    one that Loopy cannot prepare.
    """
    kernel = prepared(program, sizes)
    admitted = kernel.with_contiguous(admitted_sizes(kernel, sizes))
    made = cache(lambda: made_arguments(kernel.loopy_kernel, admitted, arguments or {}))
    made()  # refused before anything is compiled
    unit = _typed(as_translation_unit(program), kernel)

    def arguments_of(_: np.random.Generator, __: Sizes) -> Arguments:
        return made()

    def unknown(_: Arguments) -> dict[str, Array]:
        raise ParameterError("a part of a kernel has no results to compare")

    configuration = Configuration(
        label=label or kernel.name,
        build=lambda: unit,
        sizes=(admitted,),
        arguments=arguments_of,
        reference=unknown,
        check=check,
    )
    return Case(kernel.name, configuration, admitted)


def _typed(unit: TranslationUnit, kernel: Kernel) -> TranslationUnit:
    """Return *unit* with the types that Loopy's passes have found for arguments that state none, as sizes often do."""
    found = {each.name: each.dtype for each in kernel.loopy_kernel.args}
    unstated = [each.name for each in unit.default_entrypoint.args if not isinstance(each.dtype, LoopyType)]
    return lp.add_dtypes(unit, {name: found[name] for name in unstated if name in found})
