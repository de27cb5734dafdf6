"""The parts of composed kernels: a launch, an access pattern, a storage, a control flow with its arithmetic, a finish.

Each part is a function in a table; any part works with any other, unless a constraint of the template `compose` says
otherwise. A part emits its statements through the same builder as the families, so ranges, bounds, races and barriers
are checked as there.
"""
