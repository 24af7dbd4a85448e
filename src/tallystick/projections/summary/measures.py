"""The measures of a summary: one table, with a column for each way to compute them.

A measure takes the value of one field. Its column `python` is source code for the compiled fold, its columns `sql` are
aggregates; in both, `{v}` is the value. Both produce the same **account**, which `merge` adds up and `finish` converts
to the JSON of the state. So one way can continue the rows of another.

A missing field and a null are the same: no value, which every measure skips.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from typing import Any, NamedTuple

from tallystick import errors
from tallystick.event import canonical, limits
from tallystick.projections.summary import numbers
from tallystick.projections.summary.fields import Field
from tallystick.store.summary_sql import ANY, DECIMAL, INTEGER, TEXT

MINUTE, HOUR, DAY = 60, 3600, 86_400  # seconds
TOP_MAX = 1000


class Operator(NamedTuple):
    """One row of the table."""

    python: str
    sql: tuple[str, ...]
    zero: Callable[[], Any]
    read: Callable[[Any, list[Any]], Any]
    """Makes an account from the columns `sql`; `decode` converts a value of the database."""
    merge: Callable[[Measure, Any, Any], Any]
    finish: Callable[[Measure, Any], Any]
    resume: Callable[[Measure, Any], Any]


class Measure(NamedTuple):
    """One entry of a state: an operator over a field of some event types, per time window or over all time."""

    what: str
    takes: str = ANY
    field: Field | None = None
    of: tuple[str, ...] = ()
    per: int = 0
    places: int = 0
    size: int = 0

    @property
    def operator(self) -> Operator:
        """The operator, by its name `what`."""
        return OPERATORS[self.what]

    def merge(self, one: Any, later: Any) -> Any:
        """The account of two accounts together."""
        if not self.per:
            return self.operator.merge(self, one, later)
        for window, account in later.items():
            one[window] = self.operator.merge(self, one[window], account) if window in one else account
        return one

    def finish(self, account: Any) -> Any:
        """The account as JSON."""
        if not self.per:
            return self.operator.finish(self, account)
        return {window: self.operator.finish(self, inner) for window, inner in account.items()}

    def from_state(self, state: Any) -> Any:
        """The account of a state."""
        if not self.per:
            return self.operator.resume(self, state)
        return {window: self.operator.resume(self, inner) for window, inner in state.items()}

    def zero(self) -> Any:
        """The account before any event."""
        return {} if self.per else self.operator.zero()


# --- what users write ------------------------------------------------------------------------------------------------


def count(field: Field | None = None, *, of: str | tuple[str, ...] = (), per: int = 0) -> Measure:
    """How many events there were; with a field: how many had a value there."""
    return _measure("count", field, of, per)


def sum_(field: Field, *, places: int = 0, of: str | tuple[str, ...] = (), per: int = 0) -> Measure:
    """The exact sum. With `places` the values are decimals with at most that many places; the sum is a decimal text."""
    return _measure("sum", field, of, per, takes=_number(places), places=places)


def min_(field: Field, *, places: int = 0, of: str | tuple[str, ...] = (), per: int = 0) -> Measure:
    """The smallest number; null before the first."""
    return _measure("min", field, of, per, takes=_number(places), places=places)


def max_(field: Field, *, places: int = 0, of: str | tuple[str, ...] = (), per: int = 0) -> Measure:
    """The largest number; null before the first."""
    return _measure("max", field, of, per, takes=_number(places), places=places)


def min_text(field: Field, *, of: str | tuple[str, ...] = (), per: int = 0) -> Measure:
    """The first text in the order of code points; null before the first."""
    return _measure("min_text", field, of, per, takes=TEXT)


def max_text(field: Field, *, of: str | tuple[str, ...] = (), per: int = 0) -> Measure:
    """The last text in the order of code points; null before the first."""
    return _measure("max_text", field, of, per, takes=TEXT)


def latest(field: Field, *, of: str | tuple[str, ...] = (), per: int = 0) -> Measure:
    """The value, of any type, of the last event that had one; null before the first."""
    return _measure("latest", field, of, per)


def set_(field: Field, *, of: str | tuple[str, ...] = (), per: int = 0) -> Measure:
    """Every distinct value, in order; 1 and 1.0 are different. The state grows with the number of values."""
    return _measure("set", field, of, per)


def top(size: int, field: Field, *, places: int = 0, of: str | tuple[str, ...] = (), per: int = 0) -> Measure:
    """The `size` largest numbers, the largest first; equal numbers are repeated."""
    if type(size) is not int or not 1 <= size <= TOP_MAX:
        raise errors.InvalidValue(what="size of top()", value=size, must=f"from 1 to {TOP_MAX}")
    return _measure("top", field, of, per, takes=_number(places), places=places, size=size)


def _number(places: int) -> str:
    if type(places) is not int or not 0 <= places <= numbers.PLACES_MAX:
        raise errors.InvalidValue(what="places", value=places, must=f"from 0 to {numbers.PLACES_MAX}")
    return DECIMAL if places else INTEGER


def _measure(what: str, field: Field | None, of: str | tuple[str, ...], per: int, **more: Any) -> Measure:
    if per not in (0, MINUTE, HOUR, DAY):
        raise errors.InvalidValue(what="per", value=per, must="MINUTE, HOUR or DAY")
    if field is not None and not isinstance(field, Field):
        raise errors.InvalidValue(what=f"field of {what}", value=field, must="a field, such as payload.amount")
    if field is None and what != "count":
        raise errors.InvalidValue(what=f"field of {what}", value=None, must="a field, such as payload.amount")
    return Measure(what, field=field, of=(of,) if isinstance(of, str) else tuple(of), per=per, **more)


# --- accounts --------------------------------------------------------------------------------------------------------


def tag(value: Any) -> str:
    """A value as a text that no other value has: 1, 1.0 and "1" give three texts."""
    return f'"{value}' if type(value) is str else canonical.encode_state(value).decode()


def untagged(text: str) -> Any:
    """The value of a tag."""
    return text[1:] if text[0] == '"' else canonical.decode(text.encode())


def push(found: list[int], value: int, size: int) -> None:
    """Insert a number into an ascending list of the `size` largest."""
    insort(found, value)
    if len(found) > size:
        del found[0]


def _largest(measure: Measure, one: list[int], later: list[int]) -> list[int]:
    return sorted(one + later)[-measure.size :]


def _picked(pick: Callable[..., Any]) -> Callable[[Measure, Any, Any], Any]:
    def merge(measure: Measure, one: Any, later: Any) -> Any:
        return later if one is None else one if later is None else pick(one, later)

    return merge


def _exact_sum(measure: Measure, account: int) -> Any:
    if measure.places:
        return numbers.decimal(account, measure.places)
    return account if limits.INT_MIN <= account <= limits.INT_MAX else str(account)


def _number_of(measure: Measure, account: int | None) -> Any:
    return account if account is None or not measure.places else numbers.decimal(account, measure.places)


def _account_of(measure: Measure, state: Any) -> Any:
    is_number = type(state) is str and measure.takes != TEXT
    return numbers.scaled_text(state, measure.places) if is_number else state


def _joined_halves(columns: list[Any]) -> int | None:
    """A sum from its two halves, which keep databases from overflowing."""
    high, low = columns
    return None if high is None else (int(high) << 32) + int(low)


def _extreme(pick: Callable[..., Any], sql: str, sign: str) -> Operator:
    """The operator for the smallest or largest number or text."""
    return Operator(
        python=f"if {{a}} is None or {{v}} {sign} {{a}}: {{a}} = {{v}}",
        sql=(sql,),
        zero=lambda: None,
        read=lambda decode, columns: columns[0],
        merge=_picked(pick),
        finish=_number_of,
        resume=_account_of,
    )


def _listed(found: Any) -> list[Any]:
    """A list, in any form in which a database returns one."""
    listed: list[Any] = canonical.decode(found.encode()) if type(found) is str else list(found or ())
    return listed


def _latest(decode: Any, columns: list[Any]) -> Any:
    """The account of a text with position and value."""
    found = columns[0]
    return None if found is None else (int(found[:20]), decode(found[20:]))


OPERATORS = {
    "count": Operator(
        python="{a} += 1",
        sql=("count({t})",),
        zero=int,
        read=lambda decode, columns: columns[0] or None,
        merge=lambda measure, one, later: one + later,
        finish=lambda measure, account: account,
        resume=lambda measure, state: state,
    ),
    "sum": Operator(
        python="{a} += {v}",
        sql=("sum({v} >> 32)", "sum({v} & 4294967295)"),
        zero=int,
        read=lambda decode, columns: _joined_halves(columns),
        merge=lambda measure, one, later: one + later,
        finish=_exact_sum,
        resume=_account_of,
    ),
    "min": _extreme(min, "min({v})", "<"),
    "max": _extreme(max, "max({v})", ">"),
    "min_text": _extreme(min, "min({s})", "<"),
    "max_text": _extreme(max, "max({s})", ">"),
    "latest": Operator(
        python="{a} = (event.position, {v})",
        sql=("max({latest})",),
        zero=lambda: None,
        read=_latest,
        merge=_picked(lambda one, later: max(one, later, key=lambda found: found[0])),
        finish=lambda measure, account: None if account is None else account[1],
        resume=lambda measure, state: None if state is None else (0, state),
    ),
    "set": Operator(
        python="{a}.add(tag({v}))",
        sql=("{collect_distinct}",),
        zero=set,
        read=lambda decode, columns: {tag(decode(text)) for text in _listed(columns[0])} or None,
        merge=lambda measure, one, later: one | later,
        finish=lambda measure, account: [untagged(text) for text in sorted(account)],
        resume=lambda measure, state: {tag(value) for value in state},
    ),
    "top": Operator(
        python="push({a}, {v}, {size})",
        sql=("{collect_ranked}",),
        zero=list,
        read=lambda decode, columns: sorted(map(int, _listed(columns[0]))) or None,
        merge=_largest,
        finish=lambda measure, account: [_number_of(measure, value) for value in reversed(account)],
        resume=lambda measure, state: sorted(_account_of(measure, value) for value in state),
    ),
}
"""Every operator, by name. Without events, a database gives the account None."""
