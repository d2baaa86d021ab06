"""A status and a check, as a person reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kb.inert import json_text, one_line

if TYPE_CHECKING:
    from pathlib import Path

    from kb.ledger.set_aside import Passage
    from kb.ledger.upkeep import VectorUse
    from kb.maintenance.archive import Manifest
    from kb.maintenance.check import Checked
    from kb.maintenance.copying import Copied
    from kb.maintenance.exporting import Exported
    from kb.maintenance.importing import Imported
    from kb.maintenance.prune import Pruned
    from kb.maintenance.repair import Repaired
    from kb.maintenance.status import Status

NOTHING_DONE = "nothing was done\n"

_LISTED = 20
"""Failed files and passages that are named; all are in the JSON."""
_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def as_size(number: int) -> str:
    """Bytes with a unit: `1.5 MB` is 1,500,000 of them."""
    size, unit = float(number), 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{number} bytes" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def as_share(share: float) -> str:
    """Per cent with one digit; 100 only when nothing is missing."""
    return "100 %" if share >= 1 else f"{int(share * 1000) / 10:.1f} %"


def of_status(status: Status) -> str:
    """All of it, a line for each matter, and one for each failed file and passage."""
    return "".join(f"{name + ':':<13}{one_line(text)}\n" for name, text in _lines(status))


def _lines(status: Status) -> Iterator[tuple[str, str]]:
    yield "collection", f"{status.collection} in {status.folder}"
    if status.embedder is None:
        yield "holds", "nothing: nothing has been ingested yet"
    else:
        yield "documents", f"{status.documents:,} of {status.root or 'an unknown folder'}"
        yield "files", _files(status)
        yield "chunks", _chunks(status)
        yield "embedder", f"{status.embedder}, {status.dimension} dimensions"
        yield "store", status.store_fault or f"{status.store}: no fault at first sight; --check looks closer"
        if status.copy is not None:
            yield "copy", f"{_counted(status.copy.chunks, 'chunk')} in {status.copy.store}, in step"
        yield "vectors", _vectors(status)
    yield "disk", _disk(status)
    yield "writing", _lock(status)
    if status.building is not None:
        one = status.building
        yield "building", f"generation {one.number} since {one.created}, {one.chunks:,} chunks, for {one.embedder}"
    yield "last run", _last_run(status)
    yield from _failures(status)


def _files(status: Status) -> str:
    counts = status.last_run.counts if status.last_run else {}
    skipped = f", {counts['skipped']:,} skipped in the last run" if counts.get("skipped") else ""
    return f"{status.files:,} known, {status.files - status.failed:,} indexed, {status.failed:,} failed{skipped}"


def _chunks(status: Status) -> str:
    wanted = status.chunks + len(status.set_aside)
    aside = f", {len(status.set_aside):,} set aside" if status.set_aside else ""
    return f"{status.with_vector:,} of {wanted:,} with a vector{aside}: coverage {as_share(status.coverage)}"


def _vectors(status: Status) -> str:
    use = status.vectors
    unused = f"{use.unused:,} of no live chunk take {as_size(use.unused_bytes)} (--prune drops them)"
    return f"{use.vectors:,}, {as_size(use.bytes)}; {unused if use.unused else 'all of live chunks'}"


def _disk(status: Status) -> str:
    sizes = status.sizes
    other = f", other generations {as_size(sizes.other_generations)}" if sizes.other_generations else ""
    return f"ledger {as_size(sizes.ledger)}, store {as_size(sizes.store)}{other}; {as_size(sizes.free)} free"


def _lock(status: Status) -> str:
    if status.lock.held:
        return f"{status.lock.work}, {status.lock.holder}"
    if status.died:
        return f"nobody; {status.lock.work or 'a run'} died: {status.lock.holder}"
    return "nobody"


def _last_run(status: Status) -> str:
    run = status.last_run
    if run is None:
        return "none is known"
    if run.ended == "died":
        return f"died: {run.error}"
    told = f"{run.began}, {run.seconds:,.1f} s, {run.ended}"
    if run.ended != "done":
        return f"{told}: {run.error}" if run.error else told
    names = ("indexed", "unchanged", "skipped", "failed", "removed", "embedded")
    return f"{told}: " + ", ".join(f"{run.counts.get(name, 0):,} {name}" for name in names)


def _failures(status: Status) -> Iterator[tuple[str, str]]:
    aside = {one.path for one in status.set_aside}
    for failure in [one for one in status.failures if one.path not in aside][:_LISTED]:
        kept = " (what was read before can be found)" if failure.kept else ""
        yield "failed", f"{failure.path}: {failure.reason}{kept}"
    for one in status.set_aside[:_LISTED]:
        yield "set aside", f"{one.path}, {_place(one.passage)}: {one.passage.reason}"
    if len(status.failures) > _LISTED or len(status.set_aside) > _LISTED:
        yield "more", "all are listed by --json"


def _place(passage: Passage) -> str:
    page = "" if passage.page is None else f"page {passage.page}, "
    return f"{page}characters {passage.start}-{passage.end}"


def table(statuses: Sequence[Status]) -> str:
    """One line for each collection."""
    head = ("collection", "documents", "chunks", "coverage", "failed", "disk", "last run")
    rows = [head, *map(_row, statuses)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return "".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n" for row in rows
    )


def _row(status: Status) -> tuple[str, ...]:
    sizes, run = status.sizes, status.last_run
    ended = "died" if status.died else f"{run.began} {run.ended}" if run else ""
    return (
        one_line(status.collection),
        f"{status.documents:,}",
        f"{status.chunks:,}",
        as_share(status.coverage),
        f"{status.failed:,}",
        as_size(sizes.ledger + sizes.store + sizes.other_generations),
        "an ingest is running" if status.lock.held else "see its status" if status.store_fault else ended,
    )


def of_check(checked: Checked) -> str:
    """What is wrong, each with what mends it; or that all is well."""
    if not checked.faults:
        return (
            f"{checked.chunks:,} chunks: ledger and store agree; vectors, places and search of {checked.sampled:,} "
            "were looked at\n"
        )
    lines = [f"wrong: {one_line(fault.what)}\n" for fault in checked.faults]
    mends = dict.fromkeys(fault.mend for fault in checked.faults)
    return "".join([*lines, *(f"mend it: {one_line(mend)}\n" for mend in mends)])


def of_repair(repaired: Repaired) -> str:
    """What a repair did."""
    missing = (
        f"; {repaired.without_vector:,} chunks have no vector in the ledger: ingest, which embeds them"
        if repaired.without_vector
        else ""
    )
    return (
        f"the store was built anew from the ledger: {_counted(repaired.chunks, 'chunk')}, 0 embedding calls{missing}\n"
    )


def of_copy(copied: Copied) -> str:
    """What a copy did, and what goes over to it."""
    exact = "the same bit for bit"
    difference = f"at most {copied.largest_difference:.1e} apart" if copied.largest_difference else exact
    seconds = f"{copied.fill_seconds:,.1f} s to fill, {copied.verify_seconds:,.1f} s to verify"
    lines = [
        f"{_counted(copied.chunks, 'chunk')} copied to the store {copied.store!r}, 0 embedding calls: {seconds}",
        f"all were read back: ids, texts and places are equal, vectors {difference}; {copied.searched:,} were searched "
        "for, and found",
    ]
    if copied.without_vector:
        lines.append(f"{copied.without_vector:,} chunks have no vector in the ledger: ingest, which embeds them")
    if copied.fault:
        lines.append(f"the store in use has a fault, which was not copied: {copied.fault}")
    lines.append(
        f"until it is configured, everything stays in {copied.former!r}; an ingest that changes something before that "
        "deletes the copy. To go over to it, put this into config.toml, or wherever it is set:"
    )
    for table, keys in copied.settings.items():
        lines += ["", f"[{table}]", *(f"{key} = {json_text(value)}" for key, value in keys.items())]
    return "".join(f"{one_line(line)}\n" for line in lines)


def to_prune(use: VectorUse) -> str:
    """What a prune asks."""
    return (
        f"{use.unused:,} of {use.vectors:,} vectors belong to no live chunk and take {as_size(use.unused_bytes)}. A "
        "text of them that comes back is embedded again. Drop them?"
    )


def of_prune(pruned: Pruned) -> str:
    """What a prune did."""
    return (
        f"dropped: {_counted(pruned.vectors, 'vector')}; the ledger is smaller by {as_size(pruned.freed_bytes)} and "
        f"has {as_size(pruned.kept_bytes)}\n"
    )


def to_delete(collection: str, folder: Path) -> str:
    """What a deletion asks."""
    return (
        f"All of the collection {collection!r} is deleted, its vectors that were paid for among it: {folder}, and what "
        "a server holds of it. The documents are left alone. Delete it?"
    )


def of_export(exported: Exported) -> str:
    """What an export wrote."""
    return f"{_held(exported.manifest)}: in {exported.file} ({as_size(exported.bytes)})\n"


def of_import(imported: Imported) -> str:
    """What an import took over."""
    missing = imported.without_vector
    more = f"; {missing:,} chunks have no vector, which the next ingest embeds" if missing else ""
    return (
        f"{_held(imported.manifest)}: now in the collection {imported.collection!r}, 0 embedding calls{more}\n"
        f"embedder: {imported.manifest.embedder}\n"
    )


def _held(manifest: Manifest) -> str:
    return (
        f"{_counted(manifest.sources, 'document')}, {_counted(manifest.chunks, 'chunk')} and "
        f"{_counted(manifest.vectors, 'vector')} of the collection {manifest.collection!r}"
    )
