"""What scripts of benchmarks have in common."""
