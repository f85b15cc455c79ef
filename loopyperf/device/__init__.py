"""Devices: what is known of them (a catalog of TOML files), and how many groups reside on their cores."""
