"""Explorers: the reader moves the mathematics, in the built page and with a kernel."""
