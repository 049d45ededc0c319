"""Callables without Python code: proxies of wrapt stand in for them."""
