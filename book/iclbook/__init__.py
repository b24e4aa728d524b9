"""The book's own package: what its chapters measure, draw, quote and let readers move."""
