"""Many variants of a kernel: which is fastest, which can never be, and how sure that is."""
