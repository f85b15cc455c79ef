"""The fastest point of a space of transformations, found without asking about every one."""
