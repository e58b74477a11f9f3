"""Controls of a lesson without Streamlit, for fast tests of single controls."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any


class Controls:
    """A replacement for ``streamlit`` in a module: each control returns the value for its key, or its default.

    Attributes:
        chosen: values by key.
        ends: lowest and highest value of each control, by key.
        texts: all texts that were shown.
    """

    def __init__(self, **chosen: object) -> None:
        self.chosen = chosen
        self.ends: dict[str, tuple[Any, Any]] = {}
        self.texts: list[str] = []

    def _value(self, key: str, options: Sequence[Any], default: Any) -> Any:
        self.ends[key] = options[0], options[-1]
        return self.chosen.get(key, default)

    def slider(self, label: str, low: float, high: float, value: float, step: float = 1, *, key: str, **_: Any) -> Any:
        return self._value(key, (low, high), value)

    def select_slider(
        self, label: str, options: Iterable[Any], value: Any, format_func: object = None, *, key: str, **_: Any
    ) -> Any:
        return self._value(key, list(options), value)

    def segmented_control(self, label: str, options: Iterable[Any], *, default: Any, key: str, **_: Any) -> Any:
        return self._value(key, list(options), default)

    def selectbox(
        self, label: str, options: Iterable[Any], index: int = 0, format_func: object = None, *, key: str, **_: Any
    ) -> Any:
        values = list(options)
        return self._value(key, values, values[index])

    def columns(self, spec: Sequence[float], **_: Any) -> list[AbstractContextManager[None]]:
        return [nullcontext() for _ in spec]

    def spinner(self, text: str, **_: Any) -> AbstractContextManager[None]:
        return nullcontext()

    def markdown(self, text: str, **_: Any) -> None:
        self.texts.append(text)

    def caption(self, text: str, **_: Any) -> None:
        self.texts.append(text)
