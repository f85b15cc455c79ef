"""Running sums over the columns of a 2 × (n + 255) array: out[i] = Σ_{k<256} (a[0,i+k] + a[1,i+k]) for i < n, float32.

Stevens and Klöckner, section 4.1, sixth class. The array is column-major: a[r,c] is at offset 2c + r, and lanes read 2
elements apart, first the even ones, then the odd ones, so that the accesses together use every element (amortized
stride fraction 2/2). Purpose: strided loads whose gaps other loads fill.

The paper specifies the array (2 × n, column-major), the work (each of n work-items adds up 256 pairs) and the order of
the fetches, but not which pairs. Here work-item i loads the columns from i to i + 255 into registers, so the array is
255 columns longer. If the work-items of a group shared pairs through local memory, there would be 512 local loads for 2
global ones, and the paper's own weights (Table 2, a negative one for local loads) would predict a negative time; with
512 global loads they predict about the bandwidth of the R9 Fury's first-level cache.

The schedule doubles the smallest multiple of the group size that is at least 2^10; every third entry is measured (the
paper's n = 2^(p+3t)).

Counts: 512n loads of stride 2, 512n additions (one for each pair, one for each step of the sum), n stores of stride 1.
"""

from loopyperf.measurement.environment import Configuration, DeviceLimits

from ._filled_access import configurations_of_stride

NAME = "stride-2 filled global access"


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return one configuration for each 1-D group size that the device supports."""
    return configurations_of_stride(2, limits)
