"""The configured vector store of a collection: opened to be written, opened for questions, taken away."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import secrets
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kb.components import Parts, StorePlace, build_component, component_module
from kb.errors import StoreError
from kb.ledger.in_step import begun_store, filled_store
from kb.ledger.names import collection_slug
from kb.settings import CONFIG_FILE, Origins, Settings, component_names, explain_validation

if TYPE_CHECKING:
    from kb.components import Store
    from kb.ledger.generations import Generation
    from kb.ledger.ledger import Ledger


_AT = " at "
"""Between a store's name and its server's address."""
_WITHIN = ("tenant", "database")
"""Options that name a part of a server: another part holds nothing of this one's rows either."""

_SECRETS = ("api_key_env", "token_env", "headers")
"""Options that only the server at the address beside them may learn."""

_USER = re.compile("//[^/]*@")
"""User and password in an address."""

_THIS_PROCESS = secrets.token_hex(4)
"""Told apart from another that had the same number."""

_TRUE = frozenset(("true", "1", "yes", "on", "t", "y"))
"""As pydantic reads them: a variable is text."""

_FILL_MEMORY = (
    "Each process has a memory of its own, and this one has not filled it: ingest in this process "
    "(KnowledgeBase.ingest() embeds nothing twice), or set in_memory = false"
)


@dataclass(frozen=True, slots=True)
class CollectionStore:
    """The store that the settings name, for every generation of their collection."""

    settings: Settings
    origins: Origins

    @property
    def folder(self) -> Path:
        """Where the collection's ledger, lock and generations are."""
        return self.settings.data_dir / collection_slug(self.settings.collection)

    @property
    def repair_advice(self) -> str:
        """What fills the store anew, as a sentence without its full stop."""
        return f"Mend it (nothing is embedded): {self.status_command('--repair')}"

    @property
    def name(self) -> str:
        """The component, and where one on a server or in memory is: another one holds nothing of this one's rows."""
        use = self.settings.store.use
        if self.in_memory:
            return f"{use} in the memory of process {os.getpid()} ({_THIS_PROCESS})"
        if not self._url:
            return use
        table = self.settings.store.options(use)
        parts = (f", {key} {table[key]}" for key in _WITHIN if table.get(key))
        return "".join([use, _AT, self._url, *parts])

    @property
    def in_memory(self) -> bool:
        """Whether its rows end with this process (its option `in_memory`)."""
        told = self.settings.store.options(self.settings.store.use).get("in_memory")
        return not self._url and str(told).lower() in _TRUE

    @property
    def in_one_process(self) -> bool:
        """Whether no other process can look at its rows while this one has it open. Loads the component."""
        return not self._url and getattr(component_module("store", self.settings.store.use), "ONE_PROCESS", False)

    @property
    def fill_advice(self) -> str:
        """What fills a store that does not hold the collection, as a sentence without its full stop."""
        return _FILL_MEMORY if self.in_memory else self.repair_advice

    @property
    def _url(self) -> str:
        url = str(self.settings.store.options(self.settings.store.use).get("url") or "")
        return _USER.sub("//", url)  # the name is shown, and written down

    @property
    def in_files(self) -> bool:
        """Whether its data are files in the collection's folder, with an index that takes a while to write."""
        return not self._url and importlib.util.find_spec(self._files_module) is not None

    @property
    def _files_module(self) -> str:
        return f"kb.store._{self.settings.store.use}_files"

    def open(self, generation: Generation, folder: Path, root: Path | None, *, as_it_is: bool = False) -> Store:
        """Open what `folder` or a server holds of a generation, or create it empty.

        Args:
            generation: The generation.
            folder: Its folder.
            root: The folder of the collection's documents, for messages.
            as_it_is: Make and change nothing on a server.

        Raises:
            StoreError: its files are damaged.
            KbError: see the component's `build`.
        """
        self.check_files(folder)
        section = self.settings.store
        place = replace(self.place(generation, folder, root), as_it_is=as_it_is)
        parts = Parts(secret=self.origins.secret, place=place)
        store: Store = build_component("store", section.use, section.options(section.use), parts)
        return store

    def place(self, generation: Generation, folder: Path, root: Path | None) -> StorePlace:
        """What a store is told of a generation; see `open`."""
        name = self.settings.collection
        return StorePlace(
            folder,
            name,
            collection_slug(name),
            generation.fingerprint,
            generation.dimension,
            generation.number,
            self.ingest_command(root, rebuild=True),
            self.status_command("--repair"),
        )

    def served(self) -> dict[int, str]:
        """The generations that a server holds, each with its embedder's fingerprint; none where no server is.

        Raises:
            KbError: the server does not answer, or its section is wrong.
        """
        use = self.settings.store.use
        module = component_module("store", use) if self._url else None
        if module is None or not hasattr(module, "generations"):
            return {}
        options = explain_validation(module.Options, self.settings.store.options(use), f"store.{use}")
        there = module.generations(
            options, Parts(secret=self.origins.secret), collection_slug(self.settings.collection)
        )
        return dict(there)

    def held(self, ledger: Ledger, generation: Generation) -> Generation:
        """Under which number this store holds the current generation: its own, or a copy's.

        A copy (`kb.maintenance.copying`) is used once its store is configured; the next ingest goes over to it.
        """
        if filled_store(ledger.generation_folder(generation)) != self.name:
            copy = ledger.copy_in_step()
            if copy is not None and copy.of == generation.number and copy.store == self.name:
                there = replace(generation, number=copy.number)
                if filled_store(ledger.generation_folder(there)) == self.name:
                    return there
        return generation

    def open_filled(self, ledger: Ledger, generation: Generation) -> Store:
        """Open a generation's store for questions.

        Raises:
            StoreError: it was never filled, or has lost rows, so that it would miss answers without a word.
            KbError: as `open`.
        """
        held = self.held(ledger, generation)
        folder = ledger.generation_folder(held)
        root = ledger.root()
        if ledger.has_chunks(generation.number) and (filled := filled_store(folder)) != self.name:
            raise StoreError(
                f"the store {self.name!r} does not hold the collection {self.settings.collection!r}: "
                f"{self._how_to_fill(filled, root)}"
            )
        store = self.open(held, folder, root)
        try:
            self._check_count(ledger, held, store)
        except BaseException:
            store.close()
            raise
        return store

    def _how_to_fill(self, filled: str | None, root: Path | None) -> str:
        """Where the rows are, and what brings them here.

        Args:
            filled: The name of the store that was filled last.
            root: The folder of the collection's documents.
        """
        if self.in_memory:
            return f"{f'that is in {filled!r}' if filled else 'it was not filled to the end'}. {_FILL_MEMORY}"
        if filled:
            return (
                f"that is in {filled!r}. Configure it again, or fill this one (nothing is embedded twice): "
                f"{self.ingest_command(root)}"
            )
        return (
            "it was not filled to the end, or has been deleted. Wait for an ingest that is running, or "
            f"mend it (nothing is embedded): {self.status_command('--repair')}"
        )

    def check_files(self, folder: Path) -> None:
        """Look at the sizes of a generation's files, without the store's package; a server has none here.

        Raises:
            StoreError: one is missing or cut off, so that the store would answer wrongly, or crash.
        """
        if not self.in_files:
            return
        found = importlib.import_module(self._files_module).damage(folder, filled=filled_store(folder) == self.name)
        if found is not None:
            raise StoreError(
                f"the index of the collection {self.settings.collection!r} in {folder} is damaged: {found}. "
                f"{self.repair_advice}"
            )

    def drop(self, generation: int, folder: Path) -> None:
        """Take away what a server keeps of a generation: the one that was filled last, or is configured.

        Raises:
            StoreError: the server does not answer.
        """
        use, _, where = (begun_store(folder) or self.name).partition(_AT)
        if not where or use not in component_names("store"):
            return
        url, *within = where.split(", ")
        module = component_module("store", use)
        if hasattr(module, "drop"):
            table = self.settings.store.options(use)
            if url != _USER.sub("//", str(table.get("url") or "")):
                for key in _SECRETS:
                    table.pop(key, None)  # what another server is told
            table["url"] = url
            for key in _WITHIN:
                table.pop(key, None)
            table.update((key, value) for key, _, value in (part.partition(" ") for part in within))
            options = explain_validation(module.Options, table, f"store.{use}")
            parts = Parts(secret=self.origins.secret)
            module.drop(options, parts, collection_slug(self.settings.collection), generation)

    def with_store(self, use: str, options: Mapping[str, object]) -> CollectionStore:
        """The same collection in another store.

        Args:
            use: The store's name.
            options: What is other than in its section of the settings.

        Raises:
            ConfigError: there is no such store, or no such option.
        """
        module, section = component_module("store", use), self.settings.store
        table = section.options(use)
        table.update(options)
        explain_validation(module.Options, table, f"store.{use}")
        other = type(section).model_validate({**section.model_dump(), "use": use, use: dict(table)})
        other.come_from(self.origins)
        return replace(self, settings=self.settings.model_copy(update={"store": other}))

    def ingest_command(self, root: Path | None, *, rebuild: bool = False) -> str:
        """The command that brings this collection in step, with all that is not a default.

        Args:
            root: The folder of the collection's documents; None when it has none yet.
            rebuild: Build it anew.
        """
        words = [str(root)] if root is not None and root != self.settings.documents_dir.absolute() else []
        return self._command("pipelines.ingest", *words, *self._places(), *(["--rebuild"] if rebuild else []))

    def status_command(self, *flags: str) -> str:
        """The command that looks after this collection, with all that is not a default."""
        return self._command("pipelines.status", *flags, *self._places())

    @property
    def import_command(self) -> str:
        """The command that fills this collection from a file."""
        return self._command("pipelines.import", "FILE", *self._places())

    def _command(self, module: str, *words: str) -> str:
        return shlex.join(["python", "-m", module, *words])

    def _places(self) -> list[str]:
        """What tells a command this collection, where it is not the default."""
        collection, config = self.settings.collection, self.origins.config
        words = []
        given = any(place.label == "argument" and "collection" in place.table for place in self.origins.places)
        if given or collection != Settings.model_fields["collection"].default:
            words += ["--collection", collection]
        if config is not None and config != Path(os.path.abspath(CONFIG_FILE)):
            words += ["--config", str(config)]
        return words

    def _check_count(self, ledger: Ledger, generation: Generation, store: Store) -> None:
        while True:
            revision = ledger.revision()
            copy = ledger.copy_in_step()
            of_copy = copy is not None and copy.number == generation.number
            written = copy.chunks if copy is not None and of_copy else ledger.written_rows(generation.number)
            count = store.count()
            if count >= written:
                return  # more is no fault: what is not live is dropped from what is found
            if ledger.revision() == revision:
                break
            # An ingest has just taken chunks out, first of the ledger and then of the store.
        raise StoreError(
            f"the store {self.name!r} of the collection {self.settings.collection!r} has lost rows: it holds {count:,} "
            f"where {written:,} were written, so answers would be missed. {self.repair_advice}"
        )
