"""How a chain gets into a function, and out again. The one lock lives here.

To read in this order: `lock`, `members` (what users do with the hooks of a mount point), `occupancy` (something of ours
in a place of others), `place` (code in a function), `point` (how a change gets into the place), `instance` (hooks of
one instance) and `hookable` (`hookable`, `hooks` and `explain`). The rest serves these. The paths of `add`, of the
first call and of `remove` are lists in docs/contributing/architecture.md.
"""
