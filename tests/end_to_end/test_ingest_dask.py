"""Ingests whose files are read, cut and embedded by the workers of a Dask scheduler: real ones, over loopback."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kb
from kb.errors import ConfigError, KbError, ServiceError
from tests.certificates import loopback_certificate
from tests.chroma_server import free_port
from tests.commands import INGEST, ROOT, command, environment
from tests.dask_cluster import Cluster, dask_cluster, worker_of
from tests.docx_writer import docx, paragraph
from tests.end_to_end._bases import NUMBERS, UNREADABLE, CountingEmbedder, Place, a_text
from tests.hostile import copy_with_loader
from tests.llm_server import Serve, embedding_rows, embeddings_reply

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="readers are ended as Linux does it")

SMALL_CHUNKS = {"KB_CHUNKING__RECURSIVE__SIZE_TOKENS": "24", "KB_CHUNKING__RECURSIVE__MIN_TOKENS": "0"}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_with_loader(tmp_path_factory.mktemp("package"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, package: Path) -> Iterator[Cluster]:
    """Two workers with a nanny, which starts them anew when they die."""
    with dask_cluster(tmp_path_factory.mktemp("cluster"), PYTHONPATH=str(package)) as running:
        running.add_workers("--nworkers", "2")
        running.wait_for(workers=2)
        yield running


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "documents", tmp_path / "data")


def start(place: Place, package: Path, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    folders = {"KB_DOCUMENTS_DIR": str(place.documents), "KB_DATA_DIR": str(place.data)}
    return subprocess.Popen(
        command(INGEST, *arguments),
        cwd=package,
        env=environment(**folders, **SMALL_CHUNKS, **variables) | {"PYTHONPATH": str(package)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
    )


def ingest(place: Place, package: Path, *arguments: str, **variables: str) -> tuple[int, str, str]:
    return ended(start(place, package, *arguments, **variables))


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait for an ingest: its status, and what it wrote."""
    with process:
        output, said = process.communicate(timeout=120)
    return process.returncode, output, said


def elsewhere(place: Place, name: str) -> Place:
    return Place(place.documents, place.data.with_name(name))


def write_mixed(place: Place) -> None:
    place.write("a.md", a_text(NUMBERS))
    place.write("b.txt", "A parcel is weighed at the gate.\n\nThen it is moved.")
    place.write("c.html", "<html><body><h1>Returns</h1><p>Within thirty days.</p></body></html>")
    place.write("d.docx", docx(paragraph("Shoes are packed in pairs.") + paragraph("鞋子成双包装。")))
    place.write("zh/运费.md", "# 运费\n\n这是第一段，讲的是运费。\n\n## 退货\n\n三十天内可以退货。")
    place.write("ja/倉庫.txt", "これは倉庫についての文です。\n\n棚は三つあります。")
    place.write("e.txt", UNREADABLE)
    place.write("f.pdf", b"no PDF")


def wait_for(pid_file: Path, before: str = "") -> int:
    deadline = time.monotonic() + 60
    while not (pid_file.exists() and pid_file.read_text() not in ("", before)):
        assert time.monotonic() < deadline, "the file was never begun"
        time.sleep(0.02)
    return int(pid_file.read_text())


# The same as on this machine


def test_what_comes_out_is_what_one_machine_makes_of_it_whatever_the_files_do(
    place: Place, package: Path, cluster: Cluster
) -> None:
    write_mixed(place)
    place.write("g_crash.deed", "segfault")
    place.write("h_hang.deed", "hang")
    place.write(os.fsdecode(b"caf\xe9 \xff.txt"), "A name that is no Unicode.")
    limits = {"KB_LOADING__MAX_SECONDS": "2"}
    local = elsewhere(place, "local")
    here = start(local, package, **limits)
    found, expected = ingest(place, package, **limits, **cluster.variables()), ended(here)
    assert found[0] == expected[0] == 1
    failed, failed_here = (
        [line for line in run[2].splitlines() if line.startswith("failed: ")] for run in (found, expected)
    )
    assert failed == failed_here
    assert [line.split(": ")[1] for line in failed] == ["e.txt", "f.pdf", "g_crash.deed", "h_hang.deed"]
    assert "crashed (SIGSEGV)" in found[2]
    assert "not read within 2 seconds" in found[2]
    assert place.contents() == local.contents()
    assert len({source for source, _, _ in place.contents().values()}) == 7


def ingested(place: Place, cluster: Cluster, **options: Any) -> None:
    """Ingest by the workers, in this process, and compare with an ingest by this machine alone."""
    report = place.ingest(options={"ingest": cluster.settings(), **options})
    local = elsewhere(place, "local")
    expected = local.ingest(options=options)
    assert place.contents() == local.contents()
    same = ("indexed", "failed", "embedded", "tokens", "chunks_total", "problems")
    assert [getattr(report, name) for name in same] == [getattr(expected, name) for name in same]


@pytest.mark.parametrize("chunker", ["fixed", "paragraph", "semantic"])
def test_every_chunker_cuts_alike_there(place: Place, cluster: Cluster, chunker: str) -> None:
    write_mixed(place)
    place.write("long.md", a_text([*NUMBERS, "一，二，三。", "これは文です。"] * 3))
    ingested(place, cluster, chunking={"use": chunker})


def test_what_is_known_is_neither_embedded_nor_asked_for_again(place: Place, cluster: Cluster) -> None:
    write_mixed(place)
    for name in ("e.txt", "f.pdf"):  # what failed would be tried again
        (place.documents / name).unlink()
    ingested(place, cluster)
    dead = {"ingest": {"engine": "dask", "dask": {"scheduler": f"tcp://127.0.0.1:{free_port()}"}}}
    assert place.ingest(options=dead).unchanged == 6
    place.write("a.md", a_text([*NUMBERS, "new"]))
    report = place.ingest(options={"ingest": cluster.settings()})
    assert (report.indexed, report.unchanged, report.embedded, report.chunks_added) == (1, 5, 1, 1)


def test_a_service_is_asked_by_this_process_alone(
    place: Place, cluster: Cluster, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(lambda request: embeddings_reply(request, embedding_rows(request, 8)))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-this-process")  # the workers have none
    write_mixed(place)
    service = {"base_url": server.base_url, "model": "some-model", "vocabulary": "bytes"}
    report = place.ingest(options={"ingest": cluster.settings(), "embedding": {"use": "openai", "openai": service}})
    assert (report.indexed, report.failed) == (6, 2)
    assert report.embedded == report.chunks_total
    assert server.requests


# Workers that die


def test_a_worker_that_is_killed_in_the_middle_costs_nothing(place: Place, package: Path, cluster: Cluster) -> None:
    sleeping = place.write("a.deed", "sleep 1.5").with_suffix(".pid")
    for number in range(8):
        place.write(f"b{number}.md", a_text([*NUMBERS, f"第{number}章", f"{number}番"]))
    local = elsewhere(place, "local")
    with start(place, package, **cluster.variables()) as process:
        os.kill(worker_of(wait_for(sleeping)), signal.SIGKILL)
        here = start(local, package)  # meanwhile
        output, said = process.communicate(timeout=120)
    assert (process.returncode, said) == (0, ""), output
    assert "9 files: 9 indexed" in output
    assert ended(here)[0] == 0
    assert place.contents() == local.contents()


def test_a_file_whose_workers_die_each_time_is_one_line(place: Place, package: Path, cluster: Cluster) -> None:
    killing = place.write("a.deed", "sleep 60").with_suffix(".pid")
    place.write("b.md", a_text(["one"]))
    with start(place, package, **cluster.variables()) as process:
        reader = ""
        for _ in range(2):
            reader = str(wait_for(killing, before=reader))
            os.kill(worker_of(int(reader)), signal.SIGKILL)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 1
    assert said.startswith("failed: a.deed: the workers that prepared it died")
    assert len(said.splitlines()) == 1
    assert {source for source, _, _ in place.contents().values()} == {"b.md"}


def test_without_any_worker_the_run_ends_and_the_next_one_goes_on(place: Place, package: Path, tmp_path: Path) -> None:
    place.write("a.md", a_text(NUMBERS))
    place.write(
        "b.deed", "sleep 0.7"
    )  # so long that the texts of the first are waiting, which then come before the last
    place.write("c.md", a_text([f"の {number}" for number in NUMBERS], "末"))
    sleeping = place.write("d.deed", "sleep 2").with_suffix(".pid")
    with dask_cluster(tmp_path / "cluster", PYTHONPATH=str(package)) as lonely:
        lonely.wait_until_it_listens()
        lacking = refused(elsewhere(place, "never"), ServiceError, lonely.settings(connect_seconds=0.5))
        assert "has had no worker for" in lacking
        assert f"dask worker {lonely.address}" in lacking

        lonely.add_workers("--no-nanny")
        small = {"KB_INGEST__BATCH_CHUNKS": "4"}
        with start(place, package, **small, **lonely.variables(no_workers_seconds="1")) as process:
            os.kill(worker_of(wait_for(sleeping)), signal.SIGKILL)
            _, said = process.communicate(timeout=120)
        assert (process.returncode, len(said.splitlines())) == (2, 1)
        assert "has had no worker for" in said
        assert "a.md" in {source for source, _, _ in place.contents().values()}

        lonely.add_workers("--no-nanny")
        sleeping.unlink()
        with start(place, package, **lonely.variables()) as process:
            wait_for(sleeping)
            lonely.scheduler.kill()
            _, said = process.communicate(timeout=120)
        assert (process.returncode, len(said.splitlines())) == (2, 1)
        assert f"the Dask scheduler at {lonely.address} has dropped the tasks" in said
    local = elsewhere(place, "local")
    here = start(local, package)
    assert ingest(place, package)[0] == ended(here)[0] == 0
    assert place.contents() == local.contents()


def test_ctrl_c_ends_the_run_at_once(place: Place, package: Path, cluster: Cluster) -> None:
    for number in range(4):
        place.write(f"{number}.deed", "sleep 3")  # which the next test waits for
    began = place.documents / "0.pid"
    process = start(place, package, **cluster.variables())
    with process:
        wait_for(began)
        interrupted = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)
        output, said = process.communicate(timeout=20)
    assert time.monotonic() - interrupted < 2.0
    assert process.returncode == 130
    assert (output, len(said.splitlines())) == ("", 1)
    assert not (place.documents / "3.pid").exists(), "what was not begun is not begun any more"


# What is told at once


def refused(place: Place, kind: type[KbError], settings: dict[str, Any], **options: Any) -> str:
    with pytest.raises(kind) as caught:
        place.ingest(options={"ingest": settings, **options})
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_nobody_at_the_address(place: Place) -> None:
    place.write("a.md", a_text(["one"]))
    address = f"tcp://127.0.0.1:{free_port()}"
    began = time.monotonic()
    said = refused(place, ServiceError, {"engine": "dask", "dask": {"scheduler": address, "connect_seconds": 0.5}})
    assert time.monotonic() - began < 5
    assert said.startswith(f"the Dask scheduler at {address} does not answer within 0.5 seconds")
    assert "[ingest.dask] scheduler" in said


def test_a_scheduler_is_needed_and_its_address_looked_at(place: Place, tmp_path: Path) -> None:
    place.write("a.md", a_text(["one"]))
    assert "needs [ingest.dask] scheduler" in refused(place, ConfigError, {"engine": "dask"})
    for wrong in ("127.0.0.1:8786", "http://127.0.0.1:8786", "tcp://127.0.0.1"):
        assert "tcp://host:8786" in refused(place, ConfigError, {"engine": "dask", "dask": {"scheduler": wrong}})
    (tmp_path / "ca.pem").touch()
    files = {"tls_ca_file": str(tmp_path / "ca.pem")}
    tcp = refused(place, ConfigError, {"engine": "dask", "dask": {"scheduler": "tcp://127.0.0.1:1", **files}})
    assert "should begin with tls://" in tcp
    files = {"tls_ca_file": str(tmp_path / "gone.pem")}
    tls = refused(place, ConfigError, {"engine": "dask", "dask": {"scheduler": "tls://127.0.0.1:1", **files}})
    assert "gone.pem is not there" in tls


def test_without_the_package_the_line_that_installs_it_is_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write("a.md", a_text(["one"]))
    monkeypatch.delitem(sys.modules, "kb.ingest.engine.dask", raising=False)
    monkeypatch.setitem(sys.modules, "distributed", None)
    said = refused(place, ConfigError, {"engine": "dask", "dask": {"scheduler": "tcp://127.0.0.1:1"}})
    assert said.startswith('[ingest] engine = "dask" needs the package')
    assert "pip install" in said
    assert place.ingest().indexed == 1


def test_a_worker_that_sees_another_folder(place: Place, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write("文.md", a_text(["one"]))
    monkeypatch.chdir(place.documents.parent)
    own = Path("/proc/self/cwd/documents")  # it is another folder in each process
    said = refused(place, ConfigError, cluster.settings(), documents_dir=own)
    assert f"differs from this machine in the file {own}/文.md" in said
    assert "No such file or directory" in said


def test_a_worker_that_sees_another_content(place: Place, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = [place.write("文.md", "# 题\n\n这里是旧的文字。"), place.write("b.txt", "The same everywhere.")]
    theirs = Place(cluster.folder / "documents", place.data)
    copies = [theirs.write(file.name, file.read_bytes().replace("旧".encode(), "新".encode())) for file in mine]
    for file, copy in zip(mine, copies, strict=True):
        os.utime(copy, ns=(file.stat().st_mtime_ns,) * 2)  # by its size and time it is the same file
    monkeypatch.chdir(place.documents.parent)
    own = {"ingest": cluster.settings(), "documents_dir": Path("/proc/self/cwd/documents")}
    try:
        report = place.ingest(options=own)
        assert (report.indexed, report.failed) == (1, 1)
        (problem,) = report.problems
        assert (problem.path, problem.status) == ("文.md", "failed")
        assert problem.reason.startswith("the worker tcp://127.0.0.1:")
        assert "has read another content than it has here" in problem.reason
        assert {source for source, _, _ in place.contents().values()} == {"b.txt"}
        copies[0].write_bytes(mine[0].read_bytes())
        os.utime(copies[0], ns=(mine[0].stat().st_mtime_ns,) * 2)
        report = place.ingest(options=own)
        assert (report.indexed, report.unchanged, report.failed) == (1, 1, 0)
    finally:
        shutil.rmtree(theirs.documents)


def test_a_worker_of_another_version(place: Place, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write("a.md", a_text(["one"]))
    version = kb.__version__
    monkeypatch.setattr(kb, "__version__", "9.9")
    said = refused(place, ConfigError, cluster.settings())
    assert "the worker tcp://127.0.0.1:" in said
    assert f"in the version of kb: '9.9' here, '{version}' there" in said


def test_a_worker_with_another_embedder(place: Place, cluster: Cluster) -> None:
    place.write("a.md", a_text(["one"]))
    said = refused(place.with_embedder(CountingEmbedder()), ConfigError, cluster.settings())
    assert "in the embedder" in said
    assert "'counting:64' here, 'hashing:256' there" in said


def test_a_worker_with_another_service(place: Place, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-this-process")
    place.write("a.md", a_text(["one"]))
    service = {"base_url": f"http://127.0.0.1:{free_port()}/v1", "model": "some-model", "vocabulary": "bytes"}
    embedding = {"use": "openai", "openai": service}
    other = place.with_embedder(CountingEmbedder())
    said = refused(other, ConfigError, cluster.settings(), embedding=embedding)
    assert "in the embedder" in said
    assert "'counting:64' here, 'openai:some-model' there" in said


# Encrypted


def test_with_certificates_everything_goes_through_tls(place: Place, tmp_path: Path) -> None:
    write_mixed(place)
    certificate, stranger = (loopback_certificate(tmp_path, name) for name in ("ours", "stranger"))
    with dask_cluster(tmp_path / "cluster", certificate=certificate, PYTHONPATH=str(ROOT)) as secure:
        secure.add_workers("--no-nanny")
        secure.wait_for(workers=1)
        assert secure.address.startswith("tls://")
        names = ("tls_ca_file", "tls_cert_file", "tls_key_file")
        shown = secure.settings(**dict.fromkeys(names, str(certificate)))
        report = place.ingest(options={"ingest": shown})
        assert (report.indexed, report.failed) == (6, 2)
        place.write("a.md", a_text(["new"]))
        wrong = secure.settings(**dict.fromkeys(names, str(stranger)))
        wrong["dask"]["connect_seconds"] = 0.5
        assert "does not answer within 0.5 seconds" in refused(place, ServiceError, wrong)
