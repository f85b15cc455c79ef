"""A stub of petsctools, which TSFC uses only for citations."""


def add_citation(*_: str) -> None:
    """Add nothing."""


def cite(_: str) -> None:
    """Cite nothing."""
