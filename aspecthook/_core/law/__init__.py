"""What a call means. Pure: no lock, no code object."""
