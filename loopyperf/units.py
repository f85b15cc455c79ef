"""Times as people read them."""

import math

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"), (1e-12, "ps"))


def duration(seconds: float) -> str:
    """Return *seconds* rounded to three digits, in the unit that suits, e.g. ``"12.3 µs"``."""
    if not (seconds and math.isfinite(seconds)):
        return f"{seconds:.3g} s"
    # Rounded before the unit is chosen: 999.9 µs are 1 ms.
    rounded = float(f"{seconds:.2e}")
    size, unit = next((pair for pair in _UNITS if abs(rounded) >= pair[0]), _UNITS[-1])
    return f"{rounded / size:.0f} {unit}" if abs(rounded / size) >= 100 else f"{rounded / size:.3g} {unit}"
