"""Methods whose results are kept with their object, like :class:`functools.cached_property` with arguments."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

Self = TypeVar("Self")
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
_MISSING: Any = object()


def cached_method(
    method: Callable[Concatenate[Self, Arguments], Result],
) -> Callable[Concatenate[Self, Arguments], Result]:
    """Return *method* with a cache, in the object's ``__dict__``, of its results for positional, hashable arguments.

    Unlike :func:`functools.cache`, it neither keeps the object alive nor compares it.
    """
    name = f"_results_of_{method.__name__}"

    @wraps(method)
    def cached(self: Self, *arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        results: dict[Any, Any] = self.__dict__.setdefault(name, {})
        found = results.get(arguments, _MISSING)
        if found is _MISSING:
            found = results[arguments] = method(self, *arguments, **named)
        return found

    return cached
