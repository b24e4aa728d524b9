"""Formulas that only one chapter uses. The others are in ``iclcore.theory`` and ``iclcore.heads``."""
