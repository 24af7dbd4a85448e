"""The base of every error: the broken rule is its class, the values are attributes, the advice says what to do next.

A class declares its values as annotations. Because of `dataclass_transform`, type checkers compare every constructor
call with them, by name and by type.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar, dataclass_transform

__all__ = [
    "TallyError",
    "copy",
    "reason_of",
]

REASON_CHARACTERS_MAX = 500


@dataclass_transform(kw_only_default=True)
class TallyError(Exception):
    """The base of every error that tallystick raises on purpose."""

    template: ClassVar[str] = "{reason}"
    advice: ClassVar[str] = ""
    exit_status: ClassVar[int] = 2

    def __init__(self, **values: Any) -> None:
        self.values = values
        for name, value in values.items():
            setattr(self, name, value)
        super().__init__(self.message)

    @property
    def message(self) -> str:
        """The broken rule with its values, in one sentence."""
        return self.template.format(**self.values)

    @property
    def next_step(self) -> str:
        """What the reader of the message can do next."""
        return self.advice.format(**self.values)

    def __str__(self) -> str:
        return f"{self.message}. {self.next_step}".rstrip() if self.next_step else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.values))

    def as_json(self) -> dict[str, Any]:
        """The error as a plain JSON object, for `--json` and for the service."""
        return {
            "error": type(self).__name__,
            "message": self.message,
            "advice": self.next_step,
            "values": {name: _plain(value) for name, value in self.values.items()},
        }


Failure = TypeVar("Failure", bound=BaseException)


def copy(failure: Failure) -> Failure:
    """The same exception without its traceback, for another thread or task to raise."""
    return type(failure)(**failure.values) if isinstance(failure, TallyError) else failure


def reason_of(problem: BaseException) -> str:
    """The class and the message of an exception of user code, as a text that every engine can store, shortened."""
    try:
        message = str(problem)
    except Exception:  # user code makes the message too
        message = "it cannot be shown"
    text = f"{type(problem).__name__}: {message}"[:REASON_CHARACTERS_MAX]
    storable = text.encode(errors="backslashreplace").decode().replace("\0", "\\x00")  # no lone surrogates
    return storable[:REASON_CHARACTERS_MAX]


def _rebuild(kind: type[TallyError], values: dict[str, Any]) -> TallyError:
    return kind(**values)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)
