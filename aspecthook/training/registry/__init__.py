"""Registries: names for classes and functions, out of which configs (mappings, TOML files) build."""
