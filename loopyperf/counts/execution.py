"""How often an instruction runs: the points of its loops where its conditions hold.

Stevens and Klöckner, Algorithm 1: the loop domain is projected onto the instruction's own inames and its points are
counted. Two countings are first class:

``paper``
    just that: work inside a group that does not use a hardware axis is counted once along it;
``executed``
    what the hardware runs: along a hardware axis that the launch has and the instruction does not use, every
    work-item (or group) runs it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import Any, Literal

import islpy as isl
from loopy.diagnostic import ExpressionToAffineConversionError
from loopy.kernel.data import GroupInameTag
from loopy.symbolic import get_dependencies, isl_set_from_expr

from loopyperf.counts.quasipolynomial import QuasiPolynomial
from loopyperf.errors import UncountableError
from loopyperf.kernel import Kernel, Launch

Counting = Literal["paper", "executed"]
COUNTINGS: tuple[Counting, ...] = ("paper", "executed")


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition under which something runs: *expression* is true, or false where *holds* is False."""

    expression: Any
    holds: bool = True


Conditions = frozenset[Condition]


@dataclass(frozen=True, slots=True)
class Site:
    """Where something runs: a launch, the loops around it, the conditions on it."""

    launch: Launch
    inames: frozenset[str]
    conditions: Conditions
    instruction: str
    """named in refusals"""


class ExecutionCounter:
    """Counts how often sites run, each distinct set of points once."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._domains: dict[tuple[frozenset[str], Conditions], isl.Set] = {}
        self._counts: dict[Any, QuasiPolynomial] = {}

    def executions(self, site: Site, counting: Counting) -> QuasiPolynomial:
        """Return how often *site* runs, over all work-items of its launch.

        Raises :class:`UncountableError` where bounds or conditions depend on data.
        """
        axes = tuple(self._unused_axes(site)) if counting == "executed" else ()
        key = (site.inames, site.conditions, axes, id(site.launch) if axes else None)
        if key not in self._counts:
            factors = [self._extent(site.launch, kind, axis) for kind, axis in axes]
            self._counts[key] = reduce(mul, factors, self._points_counted(site))
        return self._counts[key]

    def _points_counted(self, site: Site) -> QuasiPolynomial:
        key = (site.inames, site.conditions)
        if key not in self._counts:
            points = self.points(site)
            try:
                self._counts[key] = QuasiPolynomial.of_points(points, self.kernel.assumptions)
            except UncountableError as error:
                raise type(error)(f"instruction {site.instruction!r}: {error}") from error
        return self._counts[key]

    def points(self, site: Site) -> isl.Set:
        """Return the points of *site*: over its inames, with the kernel's parameters."""
        key = (site.inames, site.conditions)
        if key not in self._domains:
            self._domains[key] = self._conditioned(self._loops(site), site)
        return self._domains[key]

    def _loops(self, site: Site) -> isl.Set:
        domain = self.kernel.domain(site.inames)
        names = domain.get_var_names_not_none(isl.dim_type.param)
        unknown = sorted(name for name in names if name not in self.kernel.parameters and _constrains(domain, name))
        if unknown:
            raise UncountableError(
                f"instruction {site.instruction!r}: its loops ({', '.join(sorted(site.inames))}) have bounds that "
                f"depend on data ({', '.join(unknown)}), which the source does not tell"
            )
        for name in [name for name in names if name not in self.kernel.parameters]:
            kind, place = domain.get_var_dict()[name]
            domain = domain.project_out(kind, place, 1)
        return domain

    def _conditioned(self, domain: isl.Set, site: Site) -> isl.Set:
        domain = domain.align_params(self.kernel.assumptions.get_space())
        for condition in sorted(site.conditions, key=str):
            allowed = self._condition_set(domain.get_space(), condition, site)
            domain = domain & allowed if condition.holds else domain - allowed
        return domain

    def _condition_set(self, space: isl.Space, condition: Condition, site: Site) -> isl.Set:
        known = self.kernel.parameters | site.inames
        refusal = (
            f"instruction {site.instruction!r}: the condition {condition.expression} is not an affine function of loop "
            "variables and sizes, so how often it holds is not known from the source"
        )
        if not get_dependencies(condition.expression) <= known:
            raise UncountableError(refusal)
        try:
            return isl_set_from_expr(space, condition.expression)
        except (ExpressionToAffineConversionError, NotImplementedError, isl.Error) as error:
            raise UncountableError(refusal) from error

    # {{{ hardware axes

    def _unused_axes(self, site: Site) -> Iterator[tuple[str, int]]:
        used = {_axis(self.kernel, iname) for iname in site.inames}
        for kind, axes in (("group", site.launch.group_axes), ("local", site.launch.local_axes)):
            yield from ((kind, axis) for axis in sorted(axes) if (kind, axis) not in used)

    def _extent(self, launch: Launch, kind: str, axis: int) -> QuasiPolynomial:
        extent = launch.group_axes[axis] if kind == "group" else launch.local_axes[axis]
        return QuasiPolynomial.of_extent(extent, self.kernel.assumptions)

    def work_groups(self, launch: Launch) -> QuasiPolynomial:
        """Return the work-groups of one execution of *launch*."""
        one = QuasiPolynomial.constant(1, self.kernel.assumptions)
        return reduce(mul, (self._extent(launch, "group", axis) for axis in sorted(launch.group_axes)), one)

    # }}}


def _axis(kernel: Kernel, iname: str) -> tuple[str, int] | None:
    tag = kernel.hardware_axis(iname)
    return None if tag is None else ("group" if isinstance(tag, GroupInameTag) else "local", tag.axis)


def _constrains(domain: isl.Set, parameter: str) -> bool:
    kind, index = domain.get_var_dict()[parameter]
    return domain.involves_dims(kind, index, 1)
