"""Setting up this checkout and serving the dashboard."""


class Failed(Exception):
    """A part of set-up could not be made; the text says what went wrong and what to do. said: by the program that was
    to make it."""

    def __init__(self, text: str, said: str = "") -> None:
        super().__init__(text)
        self.said = said
