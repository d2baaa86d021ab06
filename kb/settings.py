"""Settings: arguments > environment > .env > config.toml > defaults; unknown keys are refused.

Every key with its default and its reason stands in the project's config.toml. From the
environment a key is `KB_` and its path with `__` between: `KB_DATA_DIR`, `KB_EMBEDDING__USE`,
`KB_EMBEDDING__OPENAI__MODEL`; an empty variable counts as not set. `OPENAI_BASE_URL` and
`OPENAI_MODEL` (environment or .env) fill in where a service's `base_url` or a chat's `model` is
left empty.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

from pydantic import Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from kb.errors import ConfigError
from kb.settings_services import ChatPricesTable, ChatPurpose, ChatSection, PricesTable, ServiceOptions
from kb.settings_sources import CONFIG_FILE, ENV_FILE, ENV_PREFIX, Origins, Place, explain
from kb.settings_tables import (
    BaseUrl,
    ComponentOptions,
    ComponentSection,
    OptionalVariableName,
    OptionsTable,
    Table,
    VariableName,
    component_names,
    explain_validation,
)
from kb.settings_web import WebSection

__all__ = [
    "CONFIG_FILE",
    "ENV_FILE",
    "ENV_PREFIX",
    "BaseUrl",
    "ChatPricesTable",
    "ChatPurpose",
    "ChatSection",
    "ChunkingSection",
    "ComponentOptions",
    "ConversationSection",
    "DaskTable",
    "EmbeddingSection",
    "ExpansionSection",
    "GenerationSection",
    "IngestSection",
    "KeywordSection",
    "LoadingSection",
    "NegationSection",
    "OptionalVariableName",
    "OptionsTable",
    "Origins",
    "PricesTable",
    "RerankSection",
    "RetrievalSection",
    "ServiceOptions",
    "Settings",
    "StoreSection",
    "TracingSection",
    "VariableName",
    "WebSection",
    "component_names",
    "explain_validation",
    "load_settings",
]


OnUnsupported: TypeAlias = Literal["flag", "drop", "regenerate"]

_SCHEDULER = re.compile(r"(tcp|tls)://[^\s/@]+:\d{1,5}")


class LoadingSection(ComponentSection):
    """Which files are read, and how."""

    kind: ClassVar[str] = "loading"
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    max_file_megabytes: float = Field(100.0, gt=0)
    isolated: bool = True
    workers: int = Field(0, ge=0, le=64)
    max_seconds: float = Field(120.0, gt=0)
    max_memory_megabytes: float = Field(1024.0, ge=100)
    max_text_megabytes: float = Field(50.0, gt=0)


class ChunkingSection(ComponentSection):
    """How documents are cut."""

    kind: ClassVar[str] = "chunking"
    use: str = "recursive"


class EmbeddingSection(ComponentSection):
    """What turns text into vectors."""

    kind: ClassVar[str] = "embedding"
    use: str = "e5"


class StoreSection(ComponentSection):
    """Where vectors are kept and searched."""

    kind: ClassVar[str] = "store"
    use: str = "chroma"


class RerankSection(ComponentSection):
    """A second, closer look at the candidates."""

    kind: ClassVar[str] = "rerank"
    use: str = "none"
    candidates: int = Field(30, ge=1, le=1000)


class GenerationSection(ComponentSection):
    """What writes the answer."""

    kind: ClassVar[str] = "generation"
    use: str = "extractive"
    on_unsupported: OnUnsupported = "flag"


class KeywordSection(Table):
    """Search by words beside the search by vectors."""

    enabled: bool = True
    candidates: int = Field(50, ge=1, le=1000)
    fusion: Literal["score", "rank"] = "score"
    weight: float = Field(1.0, ge=0, le=10)
    weight_unspaced: float = Field(1.0, ge=0, le=10)
    fusion_k: float = Field(10.0, gt=0)


class RetrievalSection(Table):
    """Question → ranked hits."""

    top_k: int = Field(5, ge=1, le=1000)
    candidates: int = Field(50, ge=1, le=1000)
    exact_up_to: int = Field(2000, ge=0, le=100_000)
    cutoff: float | Literal["auto"] = "auto"
    keep_identifiers: bool = True
    relative_threshold: float = Field(0.0, ge=0, le=1)
    group_by: Literal["chunk", "document"] = "chunk"

    @field_validator("cutoff")
    @classmethod
    def _is_a_cosine(cls, cutoff: float | Literal["auto"]) -> float | Literal["auto"]:
        if cutoff != "auto" and not -1.0 <= cutoff <= 1.0:
            raise PydanticCustomError("cutoff", "should be 'auto' or a cosine similarity from -1 to 1")
        return cutoff


class ExpansionSection(Table):
    """Other wordings of a question."""

    enabled: bool = False
    wordings: int = Field(3, ge=1, le=10)


class NegationSection(Table):
    """What a question excludes."""

    check: Literal["words", "model", "off"] = "words"
    most_checked: int = Field(20, ge=1, le=1000)


class ConversationSection(Table):
    """Questions one after another."""

    rewrite: Literal["auto", "model", "words", "off"] = "auto"


class DaskTable(Table):
    """A Dask scheduler whose workers help with an ingest."""

    scheduler: str = ""
    tls_ca_file: str = ""
    tls_cert_file: str = ""
    tls_key_file: str = ""
    connect_seconds: float = Field(10.0, gt=0)
    no_workers_seconds: float = Field(60.0, gt=0)
    files_ahead: int = Field(16, ge=1, le=1000)

    @field_validator("scheduler")
    @classmethod
    def _is_an_address(cls, scheduler: str) -> str:
        if scheduler and not _SCHEDULER.fullmatch(scheduler):
            raise PydanticCustomError("scheduler", "should be an address as tcp://host:8786 or tls://host:8786")
        return scheduler


class IngestSection(Table):
    """Folder → collection."""

    engine: Literal["local", "dask"] = "local"
    batch_chunks: int = Field(2000, ge=1)
    max_removal_share: float = Field(0.5, ge=0, le=1)
    max_removal_from: int = Field(10, ge=1)
    prices: PricesTable = PricesTable()
    dask: DaskTable = DaskTable()


class TracingSection(Table):
    """Spans of OpenTelemetry."""

    enabled: bool = False
    content: bool = False


_open_places: ContextVar[tuple[Place, ...]] = ContextVar("open_places", default=())
"""The places below arguments in rank, while `load_settings` builds; `Settings()` alone is the defaults."""


class Settings(BaseSettings):
    """All settings. Both folders are absolute once `load_settings` has read them."""

    model_config = SettingsConfigDict(
        extra="forbid", case_sensitive=True, hide_input_in_errors=True, nested_model_default_partial_update=True
    )

    documents_dir: Path = Path("knowledge_base")
    data_dir: Path = Path("kb_data")
    collection: str = Field("knowledge_base", min_length=1, max_length=200)
    loading: LoadingSection = LoadingSection()
    chunking: ChunkingSection = ChunkingSection()
    embedding: EmbeddingSection = EmbeddingSection()
    store: StoreSection = StoreSection()
    keyword: KeywordSection = KeywordSection()
    retrieval: RetrievalSection = RetrievalSection()
    expansion: ExpansionSection = ExpansionSection()
    rerank: RerankSection = RerankSection()
    negation: NegationSection = NegationSection()
    generation: GenerationSection = GenerationSection()
    conversation: ConversationSection = ConversationSection()
    chat: ChatSection = ChatSection()
    ingest: IngestSection = IngestSection()
    web: WebSection = WebSection()
    tracing: TracingSection = TracingSection()

    @field_validator("documents_dir", "data_dir", "collection", mode="before")
    @classmethod
    def _is_not_blank(cls, value: object) -> object:
        if isinstance(value, str) and not value.strip():
            raise PydanticCustomError("blank", "should not be blank; leave the key out for its default")
        return value

    @field_validator("documents_dir", "data_dir")
    @classmethod
    def _home_is_known(cls, folder: Path) -> Path:
        try:
            return folder.expanduser()
        except RuntimeError as error:
            raise PydanticCustomError("home", "should be a folder; there is no home folder of that user") from error

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take arguments first, then the places that `load_settings` has opened, in falling order of rank."""
        opened = (InitSettingsSource(settings_cls, dict(place.table)) for place in _open_places.get())
        return init_settings, *opened


def load_settings(config: str | Path | None = None, **overrides: Any) -> tuple[Settings, Origins]:
    """Read all settings from where they may stand.

    Args:
        config: The configuration file. None takes `config.toml` of the working folder when it
            exists, else the defaults. Relative folders start from the file's folder (without a
            file from the working folder), wherever but in an argument they stand.
        overrides: Nested dicts of settings that win over everything else; relative folders among
            them start from the working folder.

    Raises:
        ConfigError: the file is missing or no TOML, a key is unknown, or a value is wrong; it names
            the file or variable, the section, the key and what is allowed.
    """
    origins = Origins.find(config, overrides, Settings.model_fields)
    token = _open_places.set(origins.places[1:])
    try:
        settings = Settings(**overrides)
    except ValidationError as error:
        raise ConfigError(explain(error, Settings, origins)) from error
    finally:
        _open_places.reset(token)
    for name in ("documents_dir", "data_dir"):
        base = Path.cwd() if origins.config is None or name in overrides else origins.config.parent
        setattr(settings, name, base / getattr(settings, name))
    for section in dict(settings).values():
        if isinstance(section, ComponentSection):
            section.come_from(origins)
    return settings, origins
