"""The types that a kernel computes in, as its generated code has them."""
