"""Which loops make as many passes whatever the sizes and the work-item: the compiler knows how many."""

import islpy as isl

from loopyperf.factors import independent
from loopyperf.idg.warps.nest import Nest
from loopyperf.kernel import Kernel
from loopyperf.launches import Barrier

SET = isl.dim_type.set


class ConstantLoops:
    """The loops of a kernel, each looked at once."""

    def __init__(self, kernel: Kernel) -> None:
        """Look at loops of *kernel*."""
        self.kernel = kernel
        self._found: dict[tuple[frozenset[str], str], bool] = {}

    def is_constant(self, nest: Nest) -> bool:
        """Return whether *nest* makes as many passes each time, for all that is in it."""
        inside = {statement.inames for statement in nest.statements() if not isinstance(statement.what, Barrier)}
        return all(self._is_whole(inames, nest.iname) for inames in inside)

    def _is_whole(self, inames: frozenset[str], iname: str) -> bool:
        """Return whether loops over *inames* visit one interval of *iname*, whatever the others and the sizes are."""
        key = inames, iname
        if key not in self._found:
            self._found[key] = self._stands_alone(inames, iname) or self._is_product(inames, iname)
        return self._found[key]

    def _stands_alone(self, inames: frozenset[str], iname: str) -> bool:
        """Return whether no constraint ties *iname* to anything else, divisions included; sufficient."""
        domain = self.kernel.loopy_kernel.get_inames_domain(inames)
        return frozenset([domain.get_var_dict()[iname][1]]) in independent(domain)

    def _is_product(self, inames: frozenset[str], iname: str) -> bool:
        points = self.kernel.domain(inames).intersect_params(isl.Set.from_basic_set(self.kernel.assumptions))
        kind, place = points.get_var_dict()[iname]
        first, last = points.dim_min_val(place), points.dim_max_val(place)
        if not (first.is_int() and last.is_int()):
            return False
        anywhere = points.project_out(kind, place, 1).insert_dims(kind, place, 1)
        return points.is_equal(anywhere.lower_bound_val(kind, place, first).upper_bound_val(kind, place, last))
