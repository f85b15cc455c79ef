"""Which nodes of an expression are operations: their operands are evaluated, and then combined."""

from typing import Any, ParamSpec, TypeVar

from pymbolic.mapper import Mapper

Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")


class OperationMapper(Mapper[Result, Parameters]):
    """Maps all operations alike, save for those that do not evaluate all of their operands."""

    def map_operation(self, expr: Any, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        """Return what *expr* is mapped to; subclasses say."""
        raise NotImplementedError

    def map_sum(self, expr: Any, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        return self.map_operation(expr, *args, **kwargs)

    map_product = map_sum
    map_min = map_sum
    map_max = map_sum
    map_quotient = map_sum
    map_floor_div = map_sum
    map_remainder = map_sum
    map_power = map_sum
    map_comparison = map_sum
    map_bitwise_and = map_sum
    map_bitwise_or = map_sum
    map_bitwise_xor = map_sum
    map_bitwise_not = map_sum
    map_left_shift = map_sum
    map_right_shift = map_sum
    map_logical_not = map_sum
