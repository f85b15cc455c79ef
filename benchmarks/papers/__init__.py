"""Simulations of experiments in papers, with graphs from Loopy source and the latencies that the papers publish.

Constants with values from a paper cite it. All results are simulated here, no data are copied from the papers' figures.
"""
