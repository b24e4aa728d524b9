"""Measurements: everything as a ratio within one run on one machine."""
