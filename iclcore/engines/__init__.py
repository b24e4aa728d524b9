"""The engines: each trains a model on one kind of data, and all agree where they overlap."""
