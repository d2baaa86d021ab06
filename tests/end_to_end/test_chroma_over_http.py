"""A Chroma server behind a proxy: tokens, TLS, limits, time-outs, and a server that goes away, over real sockets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import chromadb
import numpy as np
import pytest
from chromadb.config import Settings

from kb.components import Parts, StorePlace, StoreRow
from kb.errors import ConfigError, StoreError
from kb.payloads import expected_row
from kb.records import Chunk
from kb.store._chroma_calls import close_client
from kb.store._chroma_requests import bytes_of
from kb.store.chroma import ChromaStore, Options, build, drop
from tests.certificates import loopback_certificate
from tests.chroma_proxy import Rules, proxy
from tests.chroma_server import chroma_server
from tests.commands import run
from tests.end_to_end._bases import NUMBERS, CountingEmbedder, Place, a_text

DIMENSION = 16
TOKEN = "t0p-secret-令牌".encode().hex()
SECRETS = {"CHROMA_TOKEN": TOKEN, "EMPTY": ""}
TEXTS = [
    "Refunds within seven days.",
    "七天之内可以退款。🦜",
    "七日以内に返金できます。",
    'a "quoted"\\ line\nand \x00 another',
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with chroma_server(tmp_path_factory.mktemp("server") / "data") as url:
        yield url


@pytest.fixture
def place(tmp_path: Path) -> StorePlace:
    slug = f"kb-{abs(hash(tmp_path)) % 10**10}"
    return StorePlace(tmp_path / "generations" / "1", "知识库", slug, "embedder-a", DIMENSION)


def secret(name: str) -> str | None:
    return SECRETS.get(name) or None


def open_store(place: StorePlace, url: str, **options: Any) -> ChromaStore:
    return build(Options(url=url, **options), Parts(place=place, secret=secret))


def settings_of() -> Settings:
    return Settings(anonymized_telemetry=False)


def rows(count: int, text: Callable[[int], str] = lambda i: TEXTS[i % len(TEXTS)]) -> list[StoreRow]:
    vectors = np.random.default_rng(3).normal(size=(count, DIMENSION)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return [
        StoreRow(
            Chunk(f"c{i:04}", f"d{i}", text(i), 7, 7 + len(text(i)), i or None, ("手册", "退款"), "手册 › 退款"),
            f"资料/返金 {i}.md" if i % 3 else f"file\udcff{i}.md",
            vectors[i],
        )
        for i in range(count)
    ]


def assert_holds(store: ChromaStore, written: list[StoreRow]) -> None:
    held = store.rows([row.chunk.id for row in written])
    assert {i: one.place for i, one in held.items()} == {row.chunk.id: expected_row(row).place for row in written}
    for row in written:
        np.testing.assert_allclose(held[row.chunk.id].vector, row.vector, atol=1e-6)


# ── who asks ──


@pytest.mark.parametrize(
    ("header", "sent", "options"),
    [
        ("Authorization", f"Bearer {TOKEN}", {"token_env": "CHROMA_TOKEN"}),
        ("X-Chroma-Token", TOKEN, {"token_env": "CHROMA_TOKEN", "token_header": "X-Chroma-Token"}),
        ("X-Gate", f"key {TOKEN}", {"headers": {"X-Gate": "key $CHROMA_TOKEN"}}),
    ],
)
def test_a_token_is_sent_with_every_request_also_with_those_that_delete(
    place: StorePlace, server: str, header: str, sent: str, options: dict[str, Any]
) -> None:
    rules = Rules(header=(header, sent))
    with proxy(server, rules) as url:
        with closing(open_store(place, url, **options)) as store:
            store.upsert(rows(8))
            assert_holds(store, rows(8))
            assert store.search(rows(3)[2].vector[None], 1, {"source": "资料/返金 2.md"}) == [[("c0002", 1.0)]]
        drop(Options(url=url, **options), Parts(secret=secret), place.slug, 1)
        with pytest.raises(StoreError, match=r"HTTP 401.*\[store.chroma\] token_env"):
            drop(Options(url=url), Parts(secret=secret), place.slug, 1)
    assert rules.requests[-1][0] == "DELETE"


def test_a_wrong_token_is_one_line_that_names_its_variable_and_never_the_token(place: StorePlace, server: str) -> None:
    with proxy(server, Rules(header=("Authorization", "Bearer other"))) as url:
        with pytest.raises(StoreError) as refused:
            open_store(place, url, token_env="CHROMA_TOKEN")
        with pytest.raises(StoreError, match="refused a request without a token"):
            open_store(place, url)
    said = str(refused.value)
    assert said.startswith(f"the Chroma server at {url} refused the token of CHROMA_TOKEN (HTTP 401)")
    assert TOKEN not in said
    assert "\n" not in said


def test_what_a_server_says_is_told_short_on_one_line_and_without_the_token(place: StorePlace, server: str) -> None:
    with proxy(server, Rules(status=500)) as url, pytest.raises(StoreError, match="could not be reached") as failed:
        open_store(place, url, token_env="CHROMA_TOKEN", headers={"X-Gate": "key $CHROMA_TOKEN"})
    said = str(failed.value)
    assert "Authorization: … X-Gate: key …" in said
    assert (TOKEN in said, "\n" in said, len(said) < 600) == (False, False, True)


@pytest.mark.parametrize("variable", ["MISSING", "EMPTY"])
def test_a_variable_that_is_named_and_not_set_is_a_clear_error(place: StorePlace, variable: str) -> None:
    with pytest.raises(ConfigError, match=rf"token in {variable} .*token_env\), which is not set"):
        open_store(place, "http://127.0.0.1:9", token_env=variable)
    with pytest.raises(ConfigError, match=rf"header X-Gate .* takes a value from {variable}, which is not set"):
        open_store(place, "http://127.0.0.1:9", headers={"X-Gate": f"${variable}"})
    with pytest.raises(ConfigError, match=variable):
        drop(Options(url="http://127.0.0.1:9", token_env=variable), Parts(secret=secret), "notes", 1)


def test_a_token_and_a_header_of_one_name_or_a_password_in_the_address_are_refused(place: StorePlace) -> None:
    with pytest.raises(ConfigError, match="both set Authorization"):
        open_store(place, "http://127.0.0.1:9", token_env="CHROMA_TOKEN", headers={"authorization": "x"})
    with pytest.raises(ConfigError, match="holds a name or a password") as refused:
        open_store(place, f"http://me:{TOKEN}@127.0.0.1:9")
    assert TOKEN not in str(refused.value)
    with pytest.raises(ConfigError, match="characters that no token has"):
        build(
            Options(url="http://127.0.0.1:9", token_env="CHROMA_TOKEN"),
            Parts(place=place, secret=lambda name: f"{TOKEN}\r\nX-Other: 1"),
        )


def test_a_redirection_is_not_followed_as_the_token_would_go_elsewhere(place: StorePlace, server: str) -> None:
    with proxy(server, Rules(status=307)) as url, pytest.raises(StoreError, match=r"elsewhere \(HTTP 307\)"):
        open_store(place, url, token_env="CHROMA_TOKEN")


# ── whom is trusted ──


def test_a_certificate_of_an_authority_of_ones_own_is_trusted_when_it_is_named_and_no_other(
    place: StorePlace, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, other = loopback_certificate(tmp_path), loopback_certificate(tmp_path, "other")
    monkeypatch.setenv("CHROMA_SERVER_SSL_VERIFY", "false")  # which Chroma alone would obey
    rules = Rules(header=("Authorization", f"Bearer {TOKEN}"))
    with proxy(server, rules, ours) as url:
        assert url.startswith("https://")
        for wrong in ({}, {"ca_file": str(other)}):
            with pytest.raises(StoreError, match=r"certificate is not trusted .*\[store.chroma\] ca_file") as refused:
                open_store(place, url, token_env="CHROMA_TOKEN", **wrong)
            assert "\n" not in str(refused.value)
        assert rules.requests == []
        with closing(open_store(place, url, token_env="CHROMA_TOKEN", ca_file=str(ours))) as store:
            store.upsert(rows(4))
            assert_holds(store, rows(4))
        options = Options(url=url, token_env="CHROMA_TOKEN", ca_file=str(ours))
        drop(options, Parts(secret=secret), place.slug, 1)
    (tmp_path / "text.pem").write_text("no certificate")
    for file, reason in (("missing.pem", "No such file"), ("text.pem", "no certificate in PEM")):
        with pytest.raises(ConfigError, match=f"ca_file = .*{reason}"):
            open_store(place, url, ca_file=str(tmp_path / file))
    with pytest.raises(ConfigError, match="https:// address"):
        open_store(place, "http://127.0.0.1:9", ca_file=str(ours))


# ── tenants and databases ──


def test_a_database_of_a_tenant_has_collections_of_its_own(place: StorePlace, server: str, tmp_path: Path) -> None:
    host, port = server.removeprefix("http://").split(":")
    settings = settings_of()
    settings.chroma_api_impl = "chromadb.api.fastapi.FastAPI"
    settings.chroma_server_host, settings.chroma_server_http_port = host, int(port)
    admin = chromadb.AdminClient(settings)
    admin.create_tenant("team-a")
    admin.create_database("notes", "team-a")
    admin._server._session.close()  # type: ignore[attr-defined]
    within = {"tenant": "team-a", "database": "notes"}
    with closing(open_store(place, server, **within)) as inside, closing(open_store(place, server)) as outside:
        inside.upsert(rows(3))
        assert (inside.count(), outside.count()) == (3, 0)
    for wrong in ({"tenant": "nobody"}, {**within, "database": "none"}):
        with pytest.raises(StoreError, match=r"has no database .*\[store.chroma\] tenant and database"):
            open_store(place, server, **wrong)

    collection = Place(tmp_path / "documents", tmp_path / "data", "chroma", CountingEmbedder(), {"url": server})
    moved = replace(collection, store_options={"url": server, **within})
    collection.write("a.md", a_text(["zebra"]))
    moved.ingest()
    assert len(moved.contents()) == 1
    with pytest.raises(StoreError, match=f"is in 'chroma at {server}, tenant team-a, database notes'"):
        collection.found("zebra")
    with collection.open() as base:
        base.upkeep.delete()  # from where it was, not from where it would be now
    client = chromadb.HttpClient(host, int(port), settings=settings_of(), tenant="team-a", database="notes")
    assert [one.name for one in client.list_collections()] == [f"{place.slug}-g1"]
    close_client(client)


# ── how large ──


def test_rows_are_written_in_requests_below_the_size_that_is_set(place: StorePlace, server: str) -> None:
    rules, written = Rules(), rows(300, lambda i: f"第{i}段：" + "七天之内可以退款。\n\"'\\" * 40)
    with proxy(server, rules) as url, closing(open_store(place, url, max_request_megabytes=0.05)) as store:
        store.upsert(written)
        assert max(rules.writes) <= 50_000
        assert len(rules.writes) > 5
        assert sum(rules.writes) > 0.8 * sum(map(bytes_of, written)), "what is counted is what is sent, and little more"
        assert_holds(store, written)
        before = len(rules.writes)
        store.upsert(written)
        assert max(rules.writes[before:]) <= 50_000
        large = rows(1, lambda i: "長" * 40_000)
        store.upsert(large)
        assert_holds(store, large)


def test_a_proxy_that_takes_less_gets_smaller_requests_from_then_on(place: StorePlace, server: str) -> None:
    rules, written = Rules(most_bytes=20_000), rows(200, lambda i: "七日以内に返金できます。" * 20)
    with proxy(server, rules) as url, closing(open_store(place, url)) as store:
        store.upsert(written[:100])
        assert max(rules.writes) <= 20_000
        assert_holds(store, written[:100])
        refused = len(written) - len(rules.writes)
        store.upsert(written[100:])
        assert_holds(store, written)
        assert refused > 0
        assert len(store.search(np.stack([row.vector for row in written]), 2)) == 200
        assert len(store.vectors([row.chunk.id for row in written])) == 200
        store.delete([row.chunk.id for row in written])
        assert store.count() == 0
        with pytest.raises(StoreError, match=r"refuses a single row as too large \(HTTP 413\).*client_max_body_size"):
            store.upsert(rows(1, lambda i: "長" * 20_000))


# ── how long, and what becomes of an ingest ──


def test_a_server_that_hangs_is_given_up_after_the_time_that_is_set(place: StorePlace, server: str) -> None:
    rules = Rules()
    with proxy(server, rules) as url:
        with closing(open_store(place, url, timeout_seconds=0.5)) as store:
            store.upsert(rows(3))
            rules.hangs = True
            started = time.monotonic()
            for work in (lambda: store.search(rows(1)[0].vector[None], 1), lambda: store.upsert(rows(3)), store.count):
                with pytest.raises(StoreError, match=r"no answer within 0\.5 seconds \(\[store.chroma\] timeout_sec"):
                    work()
        with pytest.raises(StoreError, match=r"could not be reached: no answer within 0\.5 seconds"):
            open_store(place, url, timeout_seconds=0.5)
        assert time.monotonic() - started < 10


def test_an_ingest_whose_server_dies_ends_with_one_line_and_the_next_one_goes_on(tmp_path: Path, server: str) -> None:
    rules = Rules(breaks_after=1)
    with proxy(server, rules) as url:
        embedder = CountingEmbedder()
        place = Place(tmp_path / "documents", tmp_path / "data", "chroma", embedder, {"url": url})
        for name, words in (("a.md", NUMBERS[:4]), ("说明.md", ["退款", "七天"]), ("返金.md", ["返金", "期限"])):
            place.write(name, a_text(words))
        small = {"ingest": {"batch_chunks": 2}}
        with pytest.raises(StoreError, match=f"could not be written: .* Check that a Chroma server runs at {url}$"):
            place.ingest(options=small)
        paid = len(embedder.sent)
        rules.breaks_after, rules.status = None, 503
        with pytest.raises(StoreError, match=r"does not reach the Chroma server behind it \(HTTP 503\)"):
            place.ingest(options=small)
        rules.status = None
        report = place.ingest(options=small)
        assert report.failed == 0
        assert paid > 0
        assert len(embedder.sent) == 8, "nothing is embedded twice"
        assert len(place.contents()) == 8
        assert place.found("返金")
        with place.open() as base:
            base.upkeep.delete()


def test_the_command_says_in_one_line_what_is_wrong_and_no_file_holds_the_token(
    tmp_path: Path, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {"KB_STORE__CHROMA__TOKEN_ENV": "MY_CHROMA", "KB_STORE__CHROMA__TOKEN_HEADER": "X-Chroma-Token"}
    with proxy(server, Rules(header=("X-Chroma-Token", TOKEN))) as url:
        place = Place(tmp_path / "knowledge_base", tmp_path / "kb_data", "chroma", None, {"url": url})
        place.write("a.md", a_text(["zebra"]))
        wrong = {"KB_STORE__USE": "chroma", "KB_STORE__CHROMA__URL": url, "MY_CHROMA": "wrong-token-1", **variables}
        done = run("pipelines.ingest", cwd=tmp_path, env=wrong)
        assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
        assert "refused the token of MY_CHROMA (HTTP 401)" in done.stderr
        assert "wrong-token-1" not in done.stderr
        for name, value in {**variables, "MY_CHROMA": TOKEN}.items():
            monkeypatch.setenv(name, value)
        assert place.ingest().indexed == 1
        with place.open() as base:
            assert len(base.search("zebra", cutoff=0.3).hits) == 1
            kept = [one for one in tmp_path.rglob("*") if one.is_file() and TOKEN.encode() in one.read_bytes()]
            assert kept == []
            base.upkeep.delete()
