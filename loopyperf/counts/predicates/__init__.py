"""Conditions under which instructions run: where they are evaluated, and how often they hold."""
