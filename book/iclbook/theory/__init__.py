"""Formulas that one chapter uses: theory about the settings of this book, beside that in ``iclcore``."""
