"""What was found of kernels, kept: in memory, in files, by what a program is."""
