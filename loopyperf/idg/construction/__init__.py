"""Build the source graph of a warp from a kernel's schedule: instructions, loops, dependences."""
