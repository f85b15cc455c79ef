# measure.py
from tiles import variants

import loopyperf as lpp

ranking = lpp.rank(variants, n=512, fit="mine.json")
print(ranking.measure("opencl"))
