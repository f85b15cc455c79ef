"""Running sums over the columns of a 3 × (n + 255) array: out[i] = Σ_{k<256} (a[0,i+k] + a[1,i+k] + a[2,i+k]), float32.

Stevens and Klöckner, section 4.1, seventh class. The array is column-major: a[r,c] is at offset 3c + r, and neighboring
lanes read 3 elements apart, one of the three rows after the other, so that the accesses together use every element
(amortized stride fraction 3/3). Purpose: this kind of access, in which positions in space are often stored (the n-body
test kernel).

The paper says "Same as stride-2 filled access"; what it leaves open is defined as there: work-item i loads the columns
from i to i + 255 into registers, so the array is 255 columns longer than n.

The schedule doubles the smallest multiple of the group size that is at least 2^10; every third entry is measured (the
paper's n = 2^(p+3t)).

Counts: 768n loads of stride 3, 768n additions (two for each column, one for each step of the sum), n stores.
"""

from loopyperf.measurement.environment import Configuration, DeviceLimits

from ._filled_access import configurations_of_stride

NAME = "stride-3 filled global access"


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return one configuration for each 1-D group size that the device supports."""
    return configurations_of_stride(3, limits)
