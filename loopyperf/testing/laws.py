"""What a law is: a generator of sentences about what breaks it, and a :class:`Check` that holds something to it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Check:
    """A law, and the predictor or device that is held to it. Call it to check the law."""

    law: str
    """the law in words, e.g. ``"more work takes no less time"``"""
    subject: str
    """the predictor or device, in words"""
    find_offences: Callable[[], Iterable[str]] = field(repr=False)
    """finds what breaks the law: sentences with the kernel and its sizes, what was received, and what was expected"""

    def __call__(self) -> None:
        """Check the law; raises :class:`AssertionError` that lists what breaks it."""
        try:
            offences = list(self.find_offences())
        except Exception as error:
            raise AssertionError(f"{self.subject} breaks the law {self.law!r}: it raised {error!r}") from error
        if offences:
            raise AssertionError("\n  ".join([f"{self.subject} breaks the law {self.law!r}:", *offences]))

    def __str__(self) -> str:
        return self.law


def check_all(checks: Iterable[Check]) -> None:
    broken: list[str] = []
    for check in checks:
        try:
            check()
        except AssertionError as error:
            broken.append(str(error))
    if broken:
        raise AssertionError("\n".join(broken))


def in_words(law: Callable[..., Iterator[str]]) -> str:
    return law.__name__.strip("_").replace("_", " ")


def broken(question: str, received: object, expected: object) -> str:
    return f"{question}: received {received}, expected {expected}"
