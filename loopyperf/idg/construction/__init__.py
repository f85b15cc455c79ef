"""From a kernel's schedule to the source graphs of its warps."""
