"""Controls of a lesson without Streamlit, so that each can be set by itself at little cost."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any


class Controls:
    """Takes the place of ``streamlit`` in a module: each control gives the value chosen for its key, or its default.

    ends: of each control, its two ends. said: all texts that were shown.
    """

    def __init__(self, **chosen: object) -> None:
        self.chosen = chosen
        self.ends: dict[str, tuple[Any, Any]] = {}
        self.said: list[str] = []

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
        every = list(options)
        return self._value(key, every, every[index])

    def columns(self, spec: Sequence[float], **_: Any) -> list[AbstractContextManager[None]]:
        return [nullcontext() for _ in spec]

    def spinner(self, text: str, **_: Any) -> AbstractContextManager[None]:
        return nullcontext()

    def markdown(self, text: str, **_: Any) -> None:
        self.said.append(text)

    def caption(self, text: str, **_: Any) -> None:
        self.said.append(text)
