"""Which values of one size a kernel's assumptions admit."""

from collections.abc import Mapping
from typing import Any, cast

import islpy as isl
import numpy as np

from loopyperf.counts.magnitude import BITS, BOUND
from loopyperf.errors import ParameterError
from loopyperf.units import number_in_words

PARAM = isl.dim_type.param
SET = isl.dim_type.set


def admitted_values(
    assumptions: isl.BasicSet, size: str, at_least: int, at_most: int, others: Mapping[str, int]
) -> range:
    """Return the values of *size*, from *at_least* to *at_most*, that a kernel admits, given its *others*.

    Assumptions that admit some values in between and others not, beyond remainders, are taken to admit all. Raises
    :class:`ParameterError` for a size that the kernel does not have, others that are missing, and where there is none.
    """
    stated: dict[str, Any] = {"at_least": at_least, "at_most": at_most, **others}
    for name, value in stated.items():
        is_integer = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        if not is_integer or abs(int(cast("int", value))) >= BOUND:
            raise ParameterError(f"{name} is to be an integer below 2^{BITS}, received {number_in_words(value)}")
    if size in others:
        raise ParameterError(f"{size} is the size that varies: leave its value out")
    takes = isl.Set.from_basic_set(assumptions)
    names = takes.get_var_names_not_none(PARAM)
    unknown = sorted(map(str, {size, *others} - {*names}))
    if unknown:
        raise ParameterError(
            f"the kernel has no size {', '.join(unknown)}; its sizes are: {', '.join(names) or 'none'}"
        )
    missing = sorted({*names} - {size, *others})
    if missing:
        raise ParameterError(f"missing size {', '.join(missing)}: state them beside {size}")
    for name, value in others.items():
        takes = takes.fix_val(PARAM, takes.get_var_dict(PARAM)[name][1], isl.Val(int(value)))
    line = takes.move_dims(SET, 0, PARAM, takes.get_var_dict(PARAM)[size][1], 1)
    line = line.project_out(PARAM, 0, line.dim(PARAM))
    line = line.lower_bound_val(SET, 0, isl.Val(int(at_least))).upper_bound_val(SET, 0, isl.Val(int(at_most)))
    if line.is_empty():
        raise ParameterError(f"the kernel admits no {size} from {at_least} to {at_most}")
    step = line.get_stride_info(0).get_stride().to_python()
    return range(line.dim_min_val(0).to_python(), line.dim_max_val(0).to_python() + 1, step)
