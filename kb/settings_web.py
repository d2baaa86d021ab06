"""The section on serving: where the server listens, who may ask it, and how much it takes."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from kb.settings_tables import Table, VariableName

Deletable: TypeAlias = Literal["uploads", "all", "none"]


class WebSection(Table):
    """The server of `python -m kb.serve`."""

    host: str = Field("127.0.0.1", min_length=1)
    port: int = Field(8000, ge=0, le=65535)
    token_env: VariableName = "KNOWLEDGE_BASE_TOKEN"
    token_file: str = ""
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    tls_cert_file: str = ""
    tls_key_file: str = ""
    uploads: str = "uploads"
    deletable: Deletable = "uploads"
    max_upload_megabytes: float = Field(100.0, gt=0)
    question_characters: int = Field(4000, ge=1, le=100_000)
    workers: int = Field(0, ge=0, le=64)
    at_once: int = Field(0, ge=0, le=1000)
    waiting: int = Field(64, ge=0, le=10_000)
    requests_per_minute: int = Field(6000, ge=0)
    idle_seconds: float = Field(30.0, gt=0)
    heartbeat_seconds: float = Field(15.0, gt=0)
    ingest_at_start: bool = True

    @field_validator("uploads")
    @classmethod
    def _is_one_name(cls, folder: str) -> str:
        if not folder.strip() or folder.startswith(".") or any(mark in folder for mark in '/\\:\0*?"<>|'):
            raise PydanticCustomError(
                "folder_name",
                "should be the name of one folder, below the folder of documents, without / and leading .",
            )
        return folder

    @field_validator("allowed_origins")
    @classmethod
    def _are_origins(cls, origins: tuple[str, ...]) -> tuple[str, ...]:
        for origin in origins:
            scheme, _, rest = origin.partition("://")
            if scheme not in ("http", "https") or not rest or "/" in rest or "*" in rest:
                raise PydanticCustomError(
                    "origin", "should be origins as https://intranet.example:8443, without a path"
                )
        return origins

    @model_validator(mode="after")
    def _has_both_halves_of_tls(self) -> WebSection:
        if bool(self.tls_cert_file) != bool(self.tls_key_file):
            raise PydanticCustomError("tls", "tls_cert_file and tls_key_file go together: set both, or neither")
        return self
