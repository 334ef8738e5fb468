"""The one exception base of the package."""


class DepthrankError(ValueError):
    """Wrong input, found before anything long starts.

    The message says what was given, what is accepted and what to do about it.
    """
