"""Learned corrections of a model: trained, judged on classes left out, kept in files."""
