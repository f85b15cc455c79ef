"""Counts of a kernel with their properties: the result of :func:`loopyperf.count`."""

from collections.abc import Mapping
from dataclasses import fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from loopyperf.counts.execution import Counting
from loopyperf.counts.kernel_counts import KernelTallies, OnUnknown, count_kernel
from loopyperf.counts.property_vector import (
    CountTable,
    Pricing,
    PropertyVector,
    Totals,
    item_named,
    property_name,
    unified_properties,
    work_of_one,
)
from loopyperf.counts.sizes import Typical
from loopyperf.display import ReportText, Shown
from loopyperf.kernel import Kernel
from loopyperf.polyhedral.evaluation import IntegerArray
from loopyperf.polyhedral.quasipolynomial import QuasiPolynomial


class KernelCounts(Shown, KernelTallies):
    """Operations, memory accesses and overheads of a kernel, as exact functions of its sizes.

    :func:`loopyperf.count` returns it. ``str`` gives a table of the properties; a notebook shows it with formulas.

    Examples
    --------
    >>> import loopy as lp
    >>> import numpy as np
    >>> import loopyperf
    >>> double = lp.make_kernel("{[i]: 0 <= i < n}", "out[i] = 2*a[i]", name="double", lang_version=(2018, 2))
    >>> counts = loopyperf.count(lp.add_dtypes(double, {"a": np.float32}))
    >>> print(counts.properties()["f32 mul"])
    n
    >>> counts.properties().evaluate(n=1000)["f32 mul"]
    1000
    """

    @classmethod
    def of(cls, tallies: KernelTallies) -> "KernelCounts":
        """Return *tallies* with their properties."""
        return cls(**{field.name: getattr(tallies, field.name) for field in fields(tallies)})

    def properties(self) -> PropertyVector:
        """Return the properties of the unified model.

        Returns
        -------
        PropertyVector
            Property name -> count as a function of the sizes.
        """
        return self._properties

    @cached_property
    def _properties(self) -> PropertyVector:
        return unified_properties(self)

    @cached_property
    def _by_source(self) -> Totals[tuple[str, str]]:
        """Return the total of each property in each instruction, barrier and launch."""
        sums: dict[tuple[str, str], list[tuple[QuasiPolynomial, int | Fraction]]] = {}
        for tally in self.tallies:
            name = property_name(tally.item)
            if name is not None:
                sums.setdefault((name, tally.source), []).append((tally.executions, tally.number))
        return Totals(self.kernel, sums, {})

    @cached_property
    def _is_rounded(self) -> bool:
        """Return whether some counts are fractions that get rounded."""
        return any(isinstance(tally.number, Fraction) for tally in self.tallies)

    def costs(self, prices: Mapping[str, float], sizes: Mapping[str, int]) -> tuple[list[float], float]:
        """Return the priced counts at *sizes*, and the share of work without a price.

        Faster than :meth:`shares`.

        Parameters
        ----------
        prices
            Property -> price of one count. The mapping must not change: results for the latest one are cached.
        sizes
            Size name -> value.

        Returns
        -------
        list of float
            price · count of each property in *prices* and each of its instructions, barriers or launches.
        float
            Share of the work, from 0 to 1, of properties that *prices* lacks.

        Raises
        ------
        ParameterError
            If *sizes* are inadmissible.
        """
        if self._is_rounded:
            shares = self.shares(sizes)
            costs = [prices[name] * count for name in shares if name in prices for count in shares[name].values()]
            work = {name: work_of_one(name) * sum(parts.values()) for name, parts in shares.items()}
            return costs, sum(work[name] for name in work.keys() - prices.keys()) / max(sum(work.values()), 1.0)
        counts = self._by_source.evaluator.at(sizes)
        pricing = self.__dict__.get("_pricing")
        if pricing is None or pricing.prices is not prices:
            names = [name for name, _ in self._by_source.keys]
            pricing = self.__dict__["_pricing"] = Pricing(names, self._properties.totals.minima, prices)
        return pricing.costs(counts), pricing.share_unpriced(counts)

    def shares(self, sizes: Mapping[str, int]) -> dict[str, dict[str, int]]:
        """Return the counts at *sizes* by property and source; they add up to the property.

        Counts that are fractions because of ``typical`` are rounded; the largest counts of a property absorb the
        rounding difference, one each. A minimum of loads and stores consists of the counts of the fewer of the two.

        Parameters
        ----------
        sizes
            Size name -> value.

        Returns
        -------
        dict
            Property -> instruction, barrier or launch -> exact count.

        Raises
        ------
        ParameterError
            If *sizes* are inadmissible.
        """
        shares: dict[str, dict[str, int]] = {name: {} for name in self._properties}
        for (name, source), count in zip(self._by_source.keys, self._by_source.evaluator.at(sizes), strict=True):
            shares[name][source] = count
        if self._is_rounded:
            totals = self._properties.totals
            for name, total in zip(totals.sums, totals.evaluator.at(sizes), strict=False):
                _make_add_up(shares[name], total)
        for name, sides in self._properties.totals.minima.items():
            shares[name] = dict(min((shares[side] for side in sides), key=lambda parts: sum(parts.values())))
        return shares

    def share_left_out(self, sizes: Mapping[str, int]) -> float:
        """Return the share, from 0 to 1, of executed instructions at *sizes* that were left out of the counts.

        An instruction executes once per iteration of its loops, whatever its conditions. A loop bounded by data without
        a typical value is assumed to have one iteration.

        Raises
        ------
        ParameterError
            If *sizes* are inadmissible.
        """
        runs = {source: run.count(**sizes) * run.weight for source, run in self.runs.items()}
        missing = sum(runs.get(left_out.source, 0) for left_out in self.left_out)
        return float(missing / sum(runs.values())) if missing else 0.0

    def table(self, /, *several: Mapping[str, int], **sizes: int | IntegerArray) -> CountTable:
        """Return the properties as a table of formulas, with a column of numbers for each size.

        Parameters
        ----------
        several
            Mappings from size names to values, one for each column.
        sizes
            Sizes by keyword, common to all columns; an array makes one column for each element.

        Returns
        -------
        CountTable
            One row for each property.

        Raises
        ------
        ParameterError
            If the sizes are inadmissible, or arrays do not broadcast.

        Examples
        --------
        ``counts.table(n=1024)`` has one column; ``counts.table(n=np.array([512, 1024]))`` and
        ``counts.table({"n": 512}, {"n": 1024})`` have two.
        """
        table = self._properties.table(*several, **sizes)
        return replace(table, title=f"{self.kernel.name}, {self.counting} counting: {table.title}")

    def report_text(self) -> ReportText:
        """Return the properties with their formulas as report text."""
        return self.table().report_text()


def _make_add_up(parts: dict[str, int], total: int) -> None:
    """Change the largest *parts* by one each so that they add up to *total*."""
    missing = total - sum(parts.values())
    for source in sorted(parts, key=lambda source: -parts[source])[: abs(missing)]:
        parts[source] += 1 if missing > 0 else -1


def count_properties(
    kernel: Kernel,
    counting: Counting = "executed",
    *,
    typical: Mapping[str, Any] | None = None,
    sub_group_size: int | None = None,
    on_unknown: OnUnknown = "refuse",
) -> KernelCounts:
    """Return the exact counts of *kernel* with their properties; see :func:`loopyperf.count` for the options.

    Raises :class:`UncountableError` for a construct without an exact count, naming instruction, construct and keyword,
    and :class:`ParameterError` for an invalid option.
    """
    counted = count_kernel(
        kernel,
        counting,
        typical=Typical(typical or {}, item_named),
        sub_group_size=sub_group_size,
        on_unknown=on_unknown,
    )
    return KernelCounts.of(counted)
