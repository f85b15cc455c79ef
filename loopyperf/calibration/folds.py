"""Which kernel classes are left out together: no class is ever on both sides of a split.

Never by row: sizes and transformations of one kernel are so alike that a row left out is predicted by its neighbours.
"""

from collections.abc import Sequence

from loopyperf.errors import CalibrationError

MOST_FOLDS = 10
"""Where there are more kernel classes, several of them are left out together."""

Places = list[int]
"""of rows, ascending"""


def folds(classes: Sequence[str], most: int = MOST_FOLDS) -> list[set[str]]:
    """Return which of the *classes* of rows are left out together: as many rows in each fold as can be.

    There is a fold for each class where there are at most *most*. Raises :class:`CalibrationError` for fewer than two.
    """
    sizes: dict[str, int] = {}
    for name in classes:
        sizes[name] = sizes.get(name, 0) + 1
    if len(sizes) < 2:
        raise CalibrationError(
            f"cross-validation leaves out one kernel class at a time and needs at least two, but got {list(sizes)}; "
            "measure kernels of another class"
        )
    if len(sizes) <= most:
        return [{name} for name in sizes]
    found: list[set[str]] = [set() for _ in range(most)]
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        min(found, key=lambda fold: sum(sizes[each] for each in fold)).add(name)
    return found


def splits(classes: Sequence[str], most: int = MOST_FOLDS) -> list[tuple[Places, Places]]:
    """Return for each fold of :func:`folds` the places of the rows to learn from, and of those that are asked."""
    every = range(len(classes))
    return [
        ([place for place in every if classes[place] not in fold], [place for place in every if classes[place] in fold])
        for fold in folds(classes, most)
    ]
