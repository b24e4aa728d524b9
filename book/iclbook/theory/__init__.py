"""Theory that a single chapter uses."""
