"""Integers of isl as integers of Python."""

import islpy as isl


def as_int(value: isl.Val) -> int:
    """Return the integer *value*, like ``value.to_python()``, which loses the 32 bytes of text that it parses.

    Raises :class:`ValueError` if *value* is not an integer.
    """
    number = value.get_num_si()  # 0 if it has more than 64 bits
    return number if value.is_int() and (number or value.is_zero()) else value.to_python()
