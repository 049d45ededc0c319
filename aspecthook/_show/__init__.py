"""How hooks are shown: as a table, and as a diagram of a call. It knows rows of texts, and no hook."""
