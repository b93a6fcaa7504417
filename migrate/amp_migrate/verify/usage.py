"""Bad input: what the user asked for cannot be done."""


class UsageError(ValueError):
    """The message is one line that names the place and the next step; the exit status is 2."""
