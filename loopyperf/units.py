"""Times as people read them."""

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"), (1e-12, "ps"))


def duration(seconds: float) -> str:
    """Return *seconds* with three digits in the unit that suits, e.g. ``"12.3 µs"``."""
    size, unit = next((pair for pair in _UNITS if abs(seconds) >= pair[0]), _UNITS[-1])
    return f"{seconds / size:.3g} {unit}" if seconds else "0 s"
