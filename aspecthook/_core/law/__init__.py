"""What a call means: the laws, in plain Python. Pure: no lock is taken and no code object made here.

To read in this order: `kinds` (one row for each kind of hook), `answers` (what a hook returns), `asks` (law 3: what a
hook is given), `options` and `hook` (one hook), `order` (law 2: the chain) and `call` (one call). Law 1, the `try`
statement, is in `tests/oracle/law.py` as a program. The rest serves these.
"""
