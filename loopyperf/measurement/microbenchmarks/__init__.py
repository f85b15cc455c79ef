"""From the times of microbenchmarks to the numbers of a device description.

Files in reading order: ``pace`` (what a round takes, free of the launch), ``estimated`` (a number and its error),
``robust_fit``, ``boat_hull`` and ``straight_line`` (two shapes that times have over warps, conflicts, steps),
``memory_levels`` (the staircase of a pointer chase), ``instruction_mix`` (pipelines and issue limit), ``instructions``
and ``memory`` (what an archive tells of both), ``prediction`` (the iterative barrier kernel, simulated with what was
found), ``description`` (all of it as a device), ``shortened`` (the protocol, and less of everything for a first look).
Nothing here measures, and nothing needs a device.
"""
