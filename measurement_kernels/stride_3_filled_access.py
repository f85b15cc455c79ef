"""Running sums over the columns of a 3 × (n + 255) array: out[i] = Σ_{k<256} (a[0,i+k] + a[1,i+k] + a[2,i+k]), float32.

Stevens and Klöckner, section 4.1, seventh class. The array is column-major, hence a[r,c] stands at 3c + r and
neighbouring lanes read 3 elements apart, the three rows one after the other, so that the accesses together use every
element (amortized stride fraction 3/3). The class is in the set for just this, and because positions in space are
stored so (the n-body test kernel).

"Same as stride-2 filled access" says the paper; what it leaves open is decided as there: work-item i takes the columns
from i to i + 255 into registers, and so the array is 255 columns longer than n.

The ladder doubles the smallest multiple of the group size from 2^10 on; the harness takes every third entry (the
paper's n = 2^(p+3t)).

Counts: 768n loads of stride 3, 768n additions (two for each column, one for each step of the sum), n stores.
"""

from loopyperf.measurement.environment import Configuration, DeviceLimits

from ._filled_access import configurations_of_stride

NAME = "stride-3 filled global access"


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return one configuration for each 1-D group size that the device can hold."""
    return configurations_of_stride(3, limits)
