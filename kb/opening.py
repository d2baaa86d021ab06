"""The configured vector store of a collection: opened to be written, opened for questions, taken away."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kb.components import Parts, StorePlace, build_component, component_module
from kb.errors import StoreError
from kb.ledger.in_step import filled_store
from kb.ledger.names import collection_slug
from kb.settings import CONFIG_FILE, Origins, Settings, explain_validation

if TYPE_CHECKING:
    from kb.components import Store
    from kb.ledger.generations import Generation
    from kb.ledger.ledger import Ledger


@dataclass(frozen=True, slots=True)
class CollectionStore:
    """The store that the settings name, for every generation of their collection."""

    settings: Settings
    origins: Origins

    @property
    def name(self) -> str:
        """The component, and of one on a server where that is: another one holds nothing of this one's rows."""
        use = self.settings.store.use
        url = self.settings.store.options(use).get("url")
        return f"{use} at {url}" if url else use

    def open(self, generation: Generation, folder: Path, root: Path | None) -> Store:
        """Open what `folder` or a server holds of a generation, or create it empty.

        Args:
            generation: The generation.
            folder: Its folder.
            root: The folder of the collection's documents, for messages.

        Raises:
            KbError: see the component's `build`.
        """
        name = self.settings.collection
        place = StorePlace(
            folder,
            name,
            collection_slug(name),
            generation.fingerprint,
            generation.dimension,
            generation.number,
            self.ingest_command(root, rebuild=True),
        )
        section = self.settings.store
        parts = Parts(secret=self.origins.secret, place=place)
        store: Store = build_component("store", section.use, section.options(section.use), parts)
        return store

    def open_filled(self, ledger: Ledger, generation: Generation) -> Store:
        """Open a generation's store for questions.

        Raises:
            StoreError: it was never filled, or has lost rows, so that it would miss answers without a word.
            KbError: as `open`.
        """
        folder = ledger.generation_folder(generation)
        root = ledger.root()
        if ledger.has_chunks(generation.number) and (filled := filled_store(folder)) != self.name:
            known = (
                f"that is in {filled!r}. Configure it again"
                if filled
                else "it was not filled to the end. Wait for an ingest that is running"
            )
            raise StoreError(
                f"the store {self.name!r} does not hold the collection {self.settings.collection!r}: {known}, or fill "
                f"this one (nothing is embedded twice): {self.ingest_command(root)}"
            )
        store = self.open(generation, folder, root)
        try:
            self._check_count(ledger, generation, store)
        except BaseException:
            store.close()
            raise
        return store

    def drop(self, generation: int, folder: Path) -> None:
        """Take away what the store keeps of a generation outside its folder.

        Raises:
            StoreError: the server does not answer.
        """
        section = self.settings.store
        module = component_module("store", section.use)
        if hasattr(module, "drop") and filled_store(folder) in (None, self.name):
            options = explain_validation(module.Options, section.options(section.use), f"store.{section.use}")
            module.drop(options, collection_slug(self.settings.collection), generation)

    def ingest_command(self, root: Path | None, *, rebuild: bool = False) -> str:
        """The command that brings this collection in step, with all that is not a default.

        Args:
            root: The folder of the collection's documents; None when it has none yet.
            rebuild: Build it anew.
        """
        collection, config = self.settings.collection, self.origins.config
        words = ["python", "-m", "pipelines.ingest"]
        if root is not None and root != self.settings.documents_dir.absolute():
            words.append(str(root))
        given = any(place.label == "argument" and "collection" in place.table for place in self.origins.places)
        if given or collection != Settings.model_fields["collection"].default:
            words += ["--collection", collection]
        if config is not None and config != Path(os.path.abspath(CONFIG_FILE)):
            words += ["--config", str(config)]
        return shlex.join([*words, "--rebuild"] if rebuild else words)

    def _check_count(self, ledger: Ledger, generation: Generation, store: Store) -> None:
        while True:
            revision = ledger.revision()
            written = ledger.written_rows(generation.number)
            count = store.count()
            if count >= written:
                return  # more is no fault: what is not live is dropped from what is found
            if ledger.revision() == revision:
                break
            # An ingest has just taken chunks out, first of the ledger and then of the store.
        raise StoreError(
            f"the store {self.name!r} of the collection {self.settings.collection!r} has lost rows: it holds {count:,} "
            f"where {written:,} were written, so answers would be missed. Build it anew (nothing is embedded twice): "
            f"{self.ingest_command(ledger.root(), rebuild=True)}"
        )
