"""The two errors that people see: bad input (exit status 2) and a failure while working (exit status 1)."""


class InputError(ValueError):
    """What the user gave cannot be used. The message is one line: what is wrong, where, and what to do."""


class FailureError(RuntimeError):
    """Something went wrong that is not the user's input (a full disk, a diverged run). One line, as above."""
