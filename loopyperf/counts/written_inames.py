"""What generated code has in the place of a loop variable: a variable, a literal, or a sum."""

from typing import Any

import islpy as isl
import pymbolic.primitives as prim
from loopy.diagnostic import StaticValueFindingError
from loopy.isl_helpers import static_value_of_pw_aff
from loopy.kernel.data import LocalInameTag, UnrolledIlpTag, UnrollTag, VectorizeTag
from loopy.kernel.tools import get_hw_axis_base_for_codegen
from loopy.symbolic import GroupHardwareAxisIndex, LocalHardwareAxisIndex, pw_aff_to_expr

from loopyperf.kernel import Kernel


def written_iname(kernel: Kernel, iname: str) -> Any:
    """Return what the code generator replaces *iname* by, None if by a variable.

    ``generate_unroll_loop`` and ``set_up_hw_parallel_loops`` in ``loopy/codegen/loop.py``. An unrolled loop that does
    not start from a number, or has no constant number of passes, is taken for one that is not unrolled.
    """
    loopy_kernel = kernel.loopy_kernel
    if loopy_kernel.iname_tags_of_type(iname, (UnrollTag, UnrolledIlpTag, VectorizeTag)):
        try:
            lower: Any = loopy_kernel.get_iname_bounds(iname, constants_only=True).lower_bound_pw_aff.coalesce()
            first = pw_aff_to_expr(static_value_of_pw_aff(lower, constants_only=False))
        except (StaticValueFindingError, isl.Error):  # the latter where there is no constant bound
            return None
        return first if prim.is_constant(first) else None
    tag = kernel.hardware_axis(iname)
    if tag is None:
        return None
    base = pw_aff_to_expr(get_hw_axis_base_for_codegen(loopy_kernel, iname).to_pw_aff())
    axis = LocalHardwareAxisIndex if isinstance(tag, LocalInameTag) else GroupHardwareAxisIndex
    return None if prim.is_zero(base) else prim.flattened_sum([axis(tag.axis), base])
