"""The ways a flow can end, as codes in compiled loops and as words in results."""

RUNNING, FITTED, STATIONARY, TIME, STEPS, VALIDATION, WALL_CLOCK, DIVERGED, INTERRUPTED = range(9)
CERTIFIED = 9
STALLED = 10  # no ending: the compiled loop hands the flow to Python, which decides if it rests
STOPPED_BY = (
    "running",
    "fitted",
    "stationary",
    "time",
    "steps",
    "validation",
    "wall-clock",
    "diverged",
    "interrupted",
    "certified",
)
