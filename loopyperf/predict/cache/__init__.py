"""A cache of answers, in memory and in files, keyed by the content of a program."""
