"""Settings of the whole suite."""

from hypothesis import settings

# The same examples at every run, and no time limit for one of them: machines may be slow or shared.
settings.register_profile("depthrank", derandomize=True, deadline=None)
settings.load_profile("depthrank")
