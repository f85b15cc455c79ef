"""How a device executes the graphs of a kernel: what each instruction takes, where, and which memory serves it."""
