"""Errors of other file systems, without what may be a secret in addresses."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from typing import Any, Callable, TypeVar, Union

from stook._errors import RemoteError
from stook._stook import shown_in

_Class = TypeVar("_Class", bound=type)


def redacting_errors(cls: _Class) -> _Class:
    """A file system of which all public methods, inherited ones too, redact their errors."""
    for name in dir(cls):
        method = inspect.getattr_static(cls, name)
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(cls, name, _redacting(method))
    return cls


def _redacting(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def redacting(self: Any, *arguments: Any, **options: Any) -> Any:
        return redacted([*arguments, *options.values()], method, self, *arguments, **options)

    return redacting


def redacted(about: Union[str, list[Any]], function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """What a function gives. Its errors, and what they came of, come without what may be a secret
    in addresses.

    These are found by how they look, and those in ``about`` whatever they look like.
    """
    try:
        return function(*arguments, **options)
    except Exception as error:
        redact = functools.partial(_shown, list(_texts(about)))
        if not any(_is_secret(one, redact) for one in _chain(error)):
            raise
        again = _in_other_words(error, redact)
    # Not where the other is handled: it would be shown as the context.
    raise again


def _texts(about: Any) -> Iterator[str]:
    """The texts in lists in lists."""
    if isinstance(about, str) and about:
        yield about
    elif isinstance(about, (list, tuple)):
        for one in about:
            yield from _texts(one)


def _shown(addresses: list[str], text: Any) -> Any:
    """A text without secrets."""
    if not isinstance(text, str):
        return text
    for address in addresses:
        # What is found by its looks ends at a space or a quotation mark.
        place, mark, _ = address.partition("?")
        if "://" in place:
            text = text.replace(address, shown_in(place) + ("?…" if mark else ""))
    return shown_in(text)


def _chain(error: Exception) -> list[BaseException]:
    """An error and all that it came of."""
    met: list[BaseException] = []
    left: list[Union[BaseException, None]] = [error]
    while left:
        one = left.pop()
        if one is not None and one not in met:
            met.append(one)
            left += [one.__cause__, one.__context__]
    return met


def _is_secret(error: BaseException, redact: Callable[[Any], Any]) -> bool:
    return any(redact(text) != text for text in (str(error), repr(error)))


def _in_other_words(error: Exception, redact: Callable[[Any], Any]) -> Exception:
    """The same error without secrets, and without what it came of."""
    if not _is_secret(error, redact):
        error.__cause__ = error.__context__ = None
        return error
    if isinstance(error, OSError) and error.errno is not None:
        return OSError(error.errno, redact(error.strerror), redact(error.filename), None, redact(error.filename2))
    for kind in type(error).__mro__[:-2]:
        # Those of clients are made of answers and requests; what they are derived from mostly of a
        # text.
        try:
            again = kind(redact(str(error)))
        except TypeError:
            continue
        if kind is not Exception:
            return again  # type: ignore[no-any-return]
    return RemoteError(redact(str(error)))
