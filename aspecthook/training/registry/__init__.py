"""Registries: they give names to classes and functions, so that configs (mappings, TOML files) can refer to them."""
