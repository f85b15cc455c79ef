"""Experiments of papers, simulated: graphs from Loopy source, latencies as the papers print them.

What is simulated is ours; what a paper says is in constants that name it. Their figures are not copied.
"""
