"""Pictures and pages: what a run looks like, without a display and without a network."""
