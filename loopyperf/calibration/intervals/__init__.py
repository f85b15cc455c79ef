"""By how much the answers of a fit may be off."""
