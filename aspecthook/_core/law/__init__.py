"""What a call means: the laws, in plain Python. Pure: no lock is taken and no code object made here.

To read in this order: `kinds` (one row for each kind of hook), `signature` (what a target takes), `call` (one call),
`answers` (what a hook returns), `asks` (law 3: what a hook is given), `options` and `hook` (one hook) and `order`
(law 2: the chain). Law 1, the `try` statement, is in `tests/oracle/law.py` as a program. The others serve these.
"""
