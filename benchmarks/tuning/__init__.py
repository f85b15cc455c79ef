"""Judging `tune` on recorded spaces: every variant was measured once, and a search replays the measurements.

``spaces.py`` reads the spaces, ``gather.py`` predicts their variants and stores the predictions, ``peers.py`` runs the
strategies of other tuners in simulation, and ``judge.py`` compares strategies.
"""
