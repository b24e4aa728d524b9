"""Tables of what is too slow for a page, each beside the module whose command makes it."""
