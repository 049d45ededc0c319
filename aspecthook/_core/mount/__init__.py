"""How a chain gets into a function, and out again. The one lock lives here.

To read in this order: `lock`, `occupancy` (something of ours in a place of others), `place` (code in a function),
`point` (the hooks of a function, and how a change of them gets into the place), `instance` (hooks of one instance) and
`hookable` (`hookable`, `hooks` and `explain`). The rest serves these. The paths of `add`, of the first call and of
`remove` are lists in docs/contributing/architecture.md.
"""
