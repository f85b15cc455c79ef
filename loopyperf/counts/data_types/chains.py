"""Chains of operands that are combined from left to right, each operation in the type that C gives it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pymbolic.primitives as prim

from loopyperf.counts.data_types.literals import Context
from loopyperf.counts.data_types.number_type import NumberType, converted
from loopyperf.counts.item import Kind


class Link(NamedTuple):
    """An operand, and the operation that combines it with those before it."""

    operand: Any
    """None if it is one of those before it again, as in a square"""
    context: Context
    """in which the operand is written"""
    right: NumberType
    """the type of the operand"""
    result: NumberType
    """the type that the operation works in; of the first operand its own"""
    kind: Kind | None = None
    """None if there is no operation: for the first operand, and for a factor of -1"""
    left: NumberType | None = None
    """the type of what is before it"""


@dataclass(frozen=True, slots=True)
class Chain:
    """An expression as generated code evaluates it: operands that are combined from left to right."""

    links: tuple[Link, ...]
    result: NumberType
    operator: str | None = None
    """what is written between the operands, if no parentheses will be written around them in a chain of the same"""


def whole(chain: Chain, expression: Any, context: Context) -> Link:
    """Return *expression*, which is evaluated as *chain*, as one operand."""
    first = chain.links[0]
    return first if first.operand is expression else Link(expression, context, chain.result, chain.result)


def joined(before: Sequence[Link], link: Link, kind: Kind, functions: NumberType | None) -> Link:
    """Return *link* behind those *before* it, for which there are complex *functions* or operators of C."""
    if not before:
        return link
    left = before[-1].result
    result = converted(left, link.right)
    result = functions if functions and result.is_complex else result
    joint = "pow" if link.kind == "pow" else None if kind == "mul" and _changes_sign(before, link) else kind
    return Link(link.operand, link.context, link.right, result, joint, left)


def _changes_sign(before: Sequence[Link], link: Link) -> bool:
    """Return whether a product of *link* and those *before* it does nothing else."""
    return is_minus_one(link.operand) or all(is_minus_one(earlier.operand) for earlier in before)


def is_minus_one(expression: Any) -> bool:
    """Return whether *expression* is the literal -1, with which a product only changes its sign."""
    return isinstance(expression, (int, float, np.number)) and prim.is_zero(expression + 1)
