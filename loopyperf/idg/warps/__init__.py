"""The warps of a launch: their lanes, the iterations that they execute, and the classes that execute the same."""
