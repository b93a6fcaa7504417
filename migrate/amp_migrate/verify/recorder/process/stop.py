"""How a run ends before the script does."""


class StopRun(BaseException):
    """Raised in the script once it has made the steps that were asked for. No `except Exception` catches it."""
