"""The core: what a call means, how a chain becomes code, and how code gets into a function."""
