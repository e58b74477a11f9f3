"""Installation of this checkout's virtual environment."""


class Failed(Exception):
    """A part could not be installed.

    Args:
        text: The reason and what to do.
        said: Output of the program that failed.
    """

    def __init__(self, text: str, said: str = "") -> None:
        super().__init__(text)
        self.said = said
