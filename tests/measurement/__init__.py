"""Tests of loopyperf.measurement."""
