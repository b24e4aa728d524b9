"""Formulas that only chapters use. The others are in ``iclcore.theory`` and ``iclcore.heads``."""
