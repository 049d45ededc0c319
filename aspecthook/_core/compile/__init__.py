"""From a chain to code. Pure but for one cache."""
