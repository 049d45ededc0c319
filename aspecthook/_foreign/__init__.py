"""Callables without Python code: proxies of wrapt take their place.

For maintainers: `point` has the mount point, which puts its proxy in place and takes it away again; `places` searches
the modules for those places. Hooks go into a wrapper that `carrier` makes, which shows the parameters of the original;
`unbound` makes functions of members of classes, which bind in ways of their own. `proxy` has the proxies themselves;
`proxies` loads it when the first one is needed.
"""
