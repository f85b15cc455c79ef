"""Estimates by models of each kind: each is given what it asks for, and says why it answers nothing."""
