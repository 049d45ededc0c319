"""How a chain gets into a function, and out again. The one lock lives here.

To read in this order: `lock`, `members` (what users do with the hooks of a mount point), `occupancy` (something of ours
in a place of others), `site` (what code in a function calls), `place` (code in a function), `point` (how a change gets
into the place), `instance` (hooks of one instance) and `hookable` (`hookable`, `hooks` and `explain`). The rest serves
these: `adding` is the decorator form of `members`, `unloading` watches modules that may be unloaded, `who_answers`
makes a call that notes the answers of an event's subscribers, `original` copies a function as it was.

A user's `hooks(f).add(...)` goes this way: `Members.add`, `add_hook`, `new_hook`, `insert`; then `MountPoint._change`,
which puts the stand-in into the function (`_open`, `Place.open`), stores the hook and closes what is empty (`_settle`).
The next call finds the stand-in: `Place.current` links the chain and puts its code into the function.
"""
