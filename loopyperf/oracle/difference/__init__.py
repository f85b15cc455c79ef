"""What differs between two kernels, or one kernel at two sizes or on two devices."""
