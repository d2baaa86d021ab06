"""What the tables of config.toml are made of: values with a form of their own, options and sections of components."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from kb.errors import ConfigError
from kb.settings_sources import NOWHERE, Origins, explain

_Options = TypeVar("_Options", bound="ComponentOptions")


def _is_variable_name(value: str) -> str:
    # Upper case only: a key that was pasted here by mistake is then found out, and never shown.
    if value and not (
        value.isascii() and value.replace("_", "").isalnum() and value.upper() == value and not value[0].isdigit()
    ):
        raise PydanticCustomError(
            "not_shown",
            "should be the name of a variable in upper case, such as OPENAI_API_KEY, never the key itself; empty: none",
        )
    return value


def _is_base_url(value: str) -> str:
    if value and not value.startswith(("http://", "https://")):
        raise PydanticCustomError(
            "base_url", "should be an address that begins with http:// or https://, or empty for the default"
        )
    return value.rstrip("/")


VariableName = Annotated[str, AfterValidator(_is_variable_name)]
OptionalVariableName = Annotated[str, AfterValidator(lambda value: value and _is_variable_name(value))]
BaseUrl = Annotated[str, AfterValidator(_is_base_url)]


def _list_from_text(text: str) -> object:
    """A list in a variable: `["a", "b"]`, or one item as it is."""
    return _from_json(text) if text.startswith("[") else [text]


def _from_json(text: str) -> object:
    """What a variable holds as JSON, or its text."""
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return text


class Table(BaseModel):
    """A table of config.toml. Values are converted where nothing is lost, as variables are all text."""

    # Tracebacks show pydantic's own message as well; without its inputs no pasted key gets into a log.
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    @field_validator("*", mode="before")
    @classmethod
    def _read_as_meant(cls, value: object, info: ValidationInfo) -> object:
        annotation = cls.model_fields[info.field_name or ""].annotation
        if isinstance(value, bool) and bool not in (annotation, *get_args(annotation)):
            raise PydanticCustomError("bool", "should not be true or false")  # pydantic would make it 1 or 0
        if isinstance(value, str) and get_origin(annotation) is tuple:
            return _list_from_text(value)
        if isinstance(value, str) and get_origin(annotation) is dict:
            return _from_json(value)
        return value


class ComponentOptions(Table):
    """Base of every component's own typed options; a misspelt one is an error."""

    model_config = ConfigDict(frozen=True)


class OptionsTable(dict[str, Any]):
    """A component's options as written, with the places they came from, so that a fault can be traced."""

    origins: Origins = NOWHERE


@cache
def component_names(kind: str) -> tuple[str, ...]:
    """The components of a kind: the public files of `kb/<kind>/`, sorted. Imports nothing."""
    folder = Path(__file__).parent / kind
    return tuple(sorted(p.stem for p in folder.glob("*.py") if not p.name.startswith("_")))


class ComponentSection(Table):
    """`use` names a component of `kind`; a table of a component's name holds that one's options."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, dict[str, Any]] = Field(init=False)
    kind: ClassVar[str]
    _origins: Origins = NOWHERE

    @field_validator("use", check_fields=False)
    @classmethod
    def _is_a_component(cls, use: str) -> str:
        names = component_names(cls.kind)
        if use not in names:
            raise PydanticCustomError("component", "allowed: {names}", {"names": ", ".join(names)})
        return use

    @model_validator(mode="before")
    @classmethod
    def _tables_are_components(cls, data: object) -> object:
        allowed = sorted({*cls.model_fields, *component_names(cls.kind)})
        for key in data if isinstance(data, dict) else ():
            if key not in allowed:
                context = {"key": key, "allowed": ", ".join(allowed)}
                raise PydanticCustomError("unknown_key", "unknown key; allowed: {allowed}", context)
        return data

    def come_from(self, origins: Origins) -> None:
        """Remember the places that the section was read from, for messages about its options."""
        self._origins = origins

    def options(self, name: str) -> OptionsTable:
        """The options table of component `name`; empty when there is none."""
        table = OptionsTable((self.model_extra or {}).get(name, {}))
        table.origins = self._origins
        return table


def explain_validation(options: type[_Options], table: Mapping[str, Any], section: str) -> _Options:
    """Validate a component's table of options, for `[section]`.

    Raises:
        ConfigError: names the place, the section, the key and what is allowed.
    """
    try:
        return options.model_validate(dict(table))
    except ValidationError as error:
        origins = table.origins if isinstance(table, OptionsTable) else NOWHERE
        raise ConfigError(explain(error, options, origins, tuple(section.split(".")))) from error
