"""The catalog of event types: the model of each version of a type, and the upcasters from old versions.

Validation happens at append, on the canonical bytes and in strict mode. Upcasters are applied on reading: they change
the data that a reader sees, never the stored bytes, the type or the envelope. A type that is not in the catalog is
accepted, unless the catalog is closed. Types that begin with `tally.` are the store's own and are always accepted.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import textwrap
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from tallystick import errors
from tallystick.event import canonical, ids, names, secret_rules
from tallystick.event.model import Event, UnreadableEvent, UpcastEvent
from tallystick.event.reference import load

if TYPE_CHECKING:  # pydantic takes 0.1 s to import, and only users with models need it
    from pydantic import BaseModel

    Model = TypeVar("Model", bound=type[BaseModel])

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]
UpcasterT = TypeVar("UpcasterT", bound=Upcaster)


class EventType(msgspec.Struct):
    """One event type: its models and upcasters by version. An upcaster of version n converts to version n + 1."""

    models: dict[int, type[BaseModel]] = {}
    validators: dict[int, Callable[..., Any]] = {}
    upcasters: dict[int, Upcaster] = {}
    current: int = 0

    def missing_upcasters(self) -> list[int]:
        """The versions before the current one that have no upcaster."""
        known = [*self.models, *self.upcasters]
        return [version for version in range(min(known), self.current) if version not in self.upcasters]


class Catalog:
    """Event types with their models and upcasters. Fill it once, before it is used; reading it needs no lock."""

    def __init__(self, *, closed: bool = False) -> None:
        self.closed = closed
        self._entries: dict[str, EventType] = {}
        self._grown: dict[str, EventType] = {}  # the types past version 1: only these can be outdated
        self._renamed: dict[str, str] = {}
        self._names: dict[type[BaseModel], dict[str, int]] = {}  # the types of each model, with its highest version
        self._tenants: dict[str, bool] = {}

    # --- filling ---------------------------------------------------------------------------------------------------

    def event(self, type_: str, *, version: int = 1) -> Callable[[Model], Model]:
        """A decorator: this Pydantic model is that version of the event type."""

        def decorate(model: Model) -> Model:
            self.register(type_, model, version=version)
            return model

        return decorate

    def register(self, type_: str, model: type[BaseModel], *, version: int = 1) -> None:
        """Make a Pydantic model that version of the event type. The highest version is the current one."""
        from pydantic import BaseModel

        names.check_type(type_)
        _check_version(version)
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            raise errors.InvalidValue(what=f"model of {type_}", value=model, must="a Pydantic model class")
        entry = self._entry(type_)
        if entry.models.get(version, model) is not model:
            must = f"registered once, not as {entry.models[version].__name__} and {model.__name__}"
            raise errors.InvalidValue(what=f"version of {type_}", value=version, must=must)
        entry.models[version] = model
        entry.validators[version] = model.__pydantic_validator__.validate_json
        known = self._names.setdefault(model, {})
        known[type_] = max(version, known.get(type_, version))
        self._grow(type_, version)

    def upcaster(self, type_: str, *, from_version: int) -> Callable[[UpcasterT], UpcasterT]:
        """A decorator: this function turns the data of that version into the form of the next one."""
        names.check_type(type_)
        _check_version(from_version)

        def decorate(upcaster: UpcasterT) -> UpcasterT:
            entry = self._entry(type_)
            if entry.upcasters.get(from_version, upcaster) is not upcaster:
                raise errors.InvalidValue(
                    what=f"upcaster of {type_}", value=from_version, must="registered once for each version"
                )
            entry.upcasters[from_version] = upcaster
            self._grow(type_, from_version + 1)
            return upcaster

        return decorate

    def rename(self, old: str, *, to: str) -> None:
        """Events of the type `old` have the versions, models and upcasters of the registered type `to`.

        Stored events keep their type. A typed reader gives them as the models of `to`.
        """
        names.check_type(old)
        entry = self._entries.get(to)
        if entry is None or to in self._renamed:
            raise errors.InvalidValue(what=f"new name of {old}", value=to, must="a type that is registered already")
        if self._entries.get(old, entry) is not entry or old == to:
            must = "a type that is not registered, renamed once"
            raise errors.InvalidValue(what=f"type renamed to {to}", value=old, must=must)
        self._entries[old] = entry
        self._renamed[old] = to
        self._grow(to, entry.current)

    def include(self, other: Catalog) -> None:
        """Add every type, upcaster, new name and kind of another catalog."""
        for type_, entry in other._entries.items():
            if type_ in other._renamed:
                continue
            for version, model in entry.models.items():
                self.register(type_, model, version=version)
            for version, upcaster in entry.upcasters.items():
                self.upcaster(type_, from_version=version)(upcaster)
        for old, new in other._renamed.items():
            self.rename(old, to=new)
        self._tenants |= other._tenants

    def declare_kind(self, kind: str, *, tenant: bool) -> None:
        """Declare whether streams of a kind belong to tenants (and need an org) or to the infrastructure."""
        if not names.KIND.fullmatch(kind):
            raise errors.InvalidName(what="stream kind", value=kind[:300], form=names.KIND.pattern)
        self._tenants[kind] = tenant

    def _entry(self, type_: str) -> EventType:
        if type_ in self._renamed:
            must = f"registered as {self._renamed[type_]}, its new name"
            raise errors.InvalidValue(what="event type", value=type_, must=must)
        return self._entries.setdefault(type_, EventType())

    def _grow(self, type_: str, version: int) -> None:
        entry = self._entries[type_]
        entry.current = max(entry.current, version)
        if entry.current > 1:
            self._grown |= {name: entry for name, known in self._entries.items() if known is entry}

    # --- asking ----------------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Whether nothing is ever validated: the catalog has no types and is not closed."""
        return not self._entries and not self.closed

    @property
    def types(self) -> dict[str, EventType]:
        """The entries by type, in order of name."""
        return dict(sorted(self._entries.items()))

    def current_version(self, type_: str) -> int | None:
        """The version that new events of a type get; None if the type is not in the catalog."""
        entry = self._entries.get(type_)
        return None if entry is None else entry.current

    def name_of(self, model: type[BaseModel]) -> tuple[str, int]:
        """The type and version that instances of a model are appended as; refused if there is not exactly one type."""
        known = self._names.get(model, {})
        if len(known) != 1:
            found = f"is registered as {', '.join(sorted(known))}" if known else "is not in the catalog of the store"
            must = "an instance of a model that is registered as one type, or a NewEvent"
            raise errors.InvalidValue(what="event", value=f"{model.__name__}, which {found}", must=must)
        ((type_, version),) = known.items()
        return type_, version

    def new_name(self, type_: str) -> str:
        """The name that a type has now."""
        return self._renamed.get(type_, type_)

    def names_of(self, type_: str) -> frozenset[str]:
        """A type and its old names."""
        return frozenset({type_} | {old for old, new in self._renamed.items() if new == type_})

    def is_tenant(self, kind: str) -> bool:
        """Whether streams of a kind belong to tenants. An undeclared kind counts as one: the safe side."""
        return self._tenants.get(kind, True)

    def check(self) -> None:
        """Refuse a catalog in which the current version of a type has no model, or an old version no upcaster."""
        for type_, entry in self.types.items():
            if entry.current not in entry.models:
                raise errors.SchemaIncompatible(type=type_, reason=f"version {entry.current} has no model")
            missing = entry.missing_upcasters()
            if missing:
                raise errors.SchemaIncompatible(type=type_, reason=_no_way(missing[0]))

    # --- appending -------------------------------------------------------------------------------------------------

    def validate(self, type_: str, version: int, payload: bytes) -> None:
        """Refuse a canonical payload that does not fit the model of its type and version."""
        entry = self._entries.get(type_)
        if entry is None:
            if self.closed and not type_.startswith(names.RESERVED):
                raise errors.UnknownType(type=type_, version=version)
            return
        _, misfit = _instance(type_, version, payload, entry)
        if misfit is not None:  # raised out here: no traceback leads to pydantic's error, which holds the values
            pointer, reason = misfit
            raise errors.SchemaViolation(type=type_, version=version, pointer=pointer, reason=reason)

    def payload_of(self, model: Any) -> dict[str, Any]:
        """The JSON object of an instance of a Pydantic model; anything else is refused."""
        from pydantic import BaseModel

        if not isinstance(model, BaseModel):
            reason = f"{type(model).__name__} is not a JSON object, JSON text or a Pydantic model"
            raise errors.NotCanonical(what="payload", pointer="", reason=reason)
        try:
            found: dict[str, Any] = model.model_dump(mode="json", by_alias=True)
            lost = _any_leaf(found, _is_none) and _any_leaf(model.model_dump(), _is_not_finite)
        except Exception as problem:  # pydantic's own, or that of a model's serializer
            reason = f"{type(model).__name__} has no JSON form: {type(problem).__name__}"
        else:
            if not lost:
                return found
            reason = f"{type(model).__name__} holds NaN or an infinity"  # which pydantic turns into null
        raise errors.NotCanonical(what="payload", pointer="", reason=reason)

    def version_of(self, type_: str, model: Any) -> int | None:
        """The newest version of a type whose model this object is an instance of; None if there is none."""
        entry = self._entries.get(type_)
        versions = entry.models if entry else {}
        return max((version for version, kind in versions.items() if isinstance(model, kind)), default=None)

    # --- reading ---------------------------------------------------------------------------------------------------

    def upcast(self, events: list[Event]) -> list[Event]:
        """The events, those of outdated versions with their current data. The same list if there are none.

        If an upcaster fails on an event, reading the data of that event raises. The page is still read, because its
        other events are of other writers.
        """
        grown = self._grown
        if not grown:
            return events
        changed: list[Event] | None = None
        for index, event in enumerate(events):
            entry = grown.get(event.type)
            if entry is None or event.version >= entry.current or event.payload is None:
                continue
            if changed is None:
                changed = list(events)
            place = f" (event {ids.to_text(event.id)})"
            try:
                data = _lift(event.type, event.version, event.data, entry, place=place)
            except (errors.SchemaIncompatible, errors.Damaged) as problem:
                changed[index] = UnreadableEvent(*event.row, problem=errors.copy(problem))
            else:
                changed[index] = UpcastEvent(*event.row, current_version=entry.current, current_data=data)
        return events if changed is None else changed

    def upcast_data(self, type_: str, version: int, data: dict[str, Any]) -> dict[str, Any]:
        """The data of one version, converted to the current one. The given data may be changed."""
        entry = self._entries.get(type_)
        return data if entry is None else _lift(type_, version, data, entry, place="")

    def instance(self, event: Event) -> Any:
        """The payload of an event that was upcast, as an instance of its model; plain data if its type has no entry."""
        entry = self._entries.get(event.type)
        if entry is None or event.payload is None:
            return event.data
        version, payload = event.version, event.payload
        if version < entry.current:
            version, payload = entry.current, msgspec.json.encode(event.data)
        found, misfit = _instance(event.type, version, payload, entry)
        if misfit is not None:
            raise errors.PayloadMisfit(
                type=event.type, version=version, stream=event.stream, seq=event.seq, reason=misfit[1]
            )
        return found

    def upcaster_digest(self, types: Iterable[str] | None = None) -> bytes:
        """SHA-256 over the upcasters of these types (None: of all): versions, names, source, not what they call."""
        digest = hashlib.sha256()
        for type_ in sorted(self._entries if types is None else set(types)):
            entry = self._entries.get(type_)
            for version, upcaster in sorted(entry.upcasters.items()) if entry else ():
                source = hashlib.sha256(source_of(upcaster)).hexdigest()
                digest.update(f"{type_}\n{version}\n{_qualified(upcaster)}\n{source}\n".encode())
        return digest.digest()

    # --- finding ---------------------------------------------------------------------------------------------------

    @staticmethod
    def load(reference: str) -> Catalog:
        """The catalog at MODULE:NAME."""
        found = load(reference, what="catalog", example="shop.events:catalog")
        if not isinstance(found, Catalog):
            reason = f"it is a {type(found).__name__}, not a tallystick Catalog"
            raise errors.NotLoadable(reference=reference, reason=reason)
        return found


def _check_version(version: object) -> None:
    if type(version) is not int or not 1 <= version <= names.VERSION_MAX:
        raise errors.InvalidValue(what="version", value=version, must="an integer from 1 to 2^31-1")


def _any_leaf(value: Any, wanted: Callable[[Any], bool]) -> bool:
    if isinstance(value, dict):
        return any(_any_leaf(item, wanted) for item in value.values())
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(_any_leaf(item, wanted) for item in value)
    return wanted(value)


def _is_none(value: Any) -> bool:
    return value is None


def _is_not_finite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _no_way(version: int) -> str:
    return f"no upcaster leads from version {version} to {version + 1}"


def _lift(type_: str, version: int, data: dict[str, Any], entry: EventType, *, place: str) -> dict[str, Any]:
    """The data after every upcaster from its version to the current one."""
    for step in range(version, entry.current):
        upcaster = entry.upcasters.get(step)
        if upcaster is None:
            raise errors.SchemaIncompatible(type=type_, reason=_no_way(step) + place)
        try:
            data = upcaster(data)
        except Exception as problem:
            reason = f"the upcaster from version {step} failed on version {version}{place}: {type(problem).__name__}"
            raise errors.SchemaIncompatible(type=type_, reason=reason) from problem
        if type(data) is not dict:
            reason = f"the upcaster from version {step} gave {type(data).__name__}, not a dict{place}"
            raise errors.SchemaIncompatible(type=type_, reason=reason)
    return data


def _instance(type_: str, version: int, payload: bytes, entry: EventType) -> tuple[Any, tuple[str, str] | None]:
    """The instance of the model of a version, or where and why the payload does not match."""
    validate = entry.validators.get(version)
    if validate is None:
        raise errors.UnknownType(type=type_, version=version)
    try:
        return validate(payload, strict=True), None
    except Exception as problem:
        return None, _why(problem)


def _why(problem: Exception) -> tuple[str, str]:
    """Where and why a payload does not match, without quoting it."""
    from pydantic import ValidationError

    if not isinstance(problem, ValidationError):
        return "", f"its model failed with {type(problem).__name__}{_raised_at(problem)}"
    lines = [_line(detail) for detail in problem.errors(include_url=False)[:5]]
    more = problem.error_count() - len(lines)
    reason = "; ".join(f"{pointer or '/'}: {text}" for pointer, text in lines)
    return lines[0][0], reason + (f"; and {more} more" if more else "")


def _line(detail: Any) -> tuple[str, str]:
    pointer = "".join("/" + canonical.escape_pointer(str(step)) for step in detail["loc"])
    text, given = str(detail["msg"]), detail["input"]
    if secret_rules.match_text(pointer):
        pointer = "/(key withheld)"
    if secret_rules.match_text(text) or (isinstance(given, str) and len(given) > 3 and given in text):
        text = f"{detail['type']} (the message is withheld, because it quotes the value)"
    return pointer[:200], text[:300]


def _raised_at(problem: Exception) -> str:
    trace = problem.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f" at {trace.tb_frame.f_code.co_qualname} line {trace.tb_lineno}" if trace else ""


def _qualified(function: Callable[..., Any]) -> str:
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def source_of(function: Callable[..., Any]) -> bytes:
    """The source of a function or class, or its byte code if there is no source, as in an interactive session."""
    try:
        return textwrap.dedent(inspect.getsource(function)).encode()
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        return b"" if code is None else code.co_code + repr((code.co_consts, code.co_names)).encode()
