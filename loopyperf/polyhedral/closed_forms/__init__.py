"""Counts as plain values: written down, compared, simplified, compiled and evaluated."""
