"""Measure latencies, throughputs and memories of a device, and write its description."""
