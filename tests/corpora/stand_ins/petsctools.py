"""Stands in for petsctools, which TSFC asks only for citations."""


def add_citation(*_: str) -> None:
    """Add nothing."""


def cite(_: str) -> None:
    """Cite nothing."""
