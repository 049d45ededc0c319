"""What a call means: the laws, in plain Python. Pure: no lock is taken and no code object made here.

To read in this order: `answers` (what a hook returns), `asks` (law 3: what a hook is given), `options` and `hook` (one
hook), `order` (law 2: the chain), `call` (one call), and `law` (law 1: the `try` statement). The rest serves these;
`law_sync` is made of `law` by ``make law``.
"""
