"""The embedder of sentence-transformers with a real, tiny model: vectors, prefixes, limits, faults, no network."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kb import KnowledgeBase
from kb.abilities import CountsTokens, LoadsAhead
from kb.components import Parts, build_component
from kb.errors import ConfigError, KbError, ServiceError
from tests.tiny_sentence_model import DIMENSION, MAX_TOKENS, missing, write_model

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))

ROOT = Path(__file__).parents[2]
TEXTS = ["The reading room opens at nine.", "展览每周一闭馆，学生可以半价购票。", "会議室を使う前日までに申し込む。"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sentence")


@pytest.fixture(scope="module")
def model(place: Path) -> Path:
    return write_model(place, prompts={"query": "query: ", "document": ""})


@pytest.fixture
def copied(model: Path, tmp_path: Path) -> Path:
    """The model in a folder of the test's own, to be spoiled."""
    return Path(shutil.copytree(model, tmp_path / "copied"))


def build(model: Path | str, cache: Path, **options: Any) -> Any:
    table = {"model": str(model), "cache_dir": str(cache), **options}
    return build_component("embedding", "sentence_transformers", table, Parts())


def reference(model: Path, texts: list[str]) -> Any:
    """What the library itself says, as the second guide calls it."""
    from sentence_transformers import SentenceTransformer

    loaded = SentenceTransformer(str(model), device="cpu", local_files_only=True)
    return loaded.encode(texts, prompt="", normalize_embeddings=True, show_progress_bar=False)


def test_vectors_are_those_of_the_library_with_the_prefixes_put_before_the_texts(model: Path, place: Path) -> None:
    embedder = build(model, place, query_prefix="查询：", document_prefix="passage: ")
    passages, questions = embedder.embed_documents(TEXTS), embedder.embed_queries(TEXTS)
    np.testing.assert_allclose(passages, reference(model, ["passage: " + text for text in TEXTS]), atol=1e-5)
    np.testing.assert_allclose(questions, reference(model, ["查询：" + text for text in TEXTS]), atol=1e-5)
    assert abs(passages - questions).max() > 0.01
    assert isinstance(embedder, CountsTokens)
    assert isinstance(embedder, LoadsAhead)


def test_without_prefixes_in_the_options_those_of_the_model_s_files_count(model: Path, place: Path) -> None:
    own, none = build(model, place), build(model, place, query_prefix="", document_prefix="")
    np.testing.assert_array_equal(
        own.embed_queries(TEXTS), build(model, place, query_prefix="query: ").embed_queries(TEXTS)
    )
    np.testing.assert_array_equal(own.embed_documents(TEXTS), none.embed_documents(TEXTS))
    assert abs(own.embed_queries(TEXTS) - none.embed_queries(TEXTS)).max() > 0.01
    assert own.fingerprint != none.fingerprint


def test_bits_do_not_depend_on_the_texts_beside_it_or_on_the_threads(model: Path, place: Path) -> None:
    texts = [text * times for times in (1, 2, 3, 5) for text in TEXTS]
    alone = np.concatenate([build(model, place, threads=1).embed_documents([text]) for text in texts[:3]])
    for threads in (1, 2, 5):
        found = build(model, place, threads=threads).embed_documents(texts)
        np.testing.assert_array_equal(found[:3], alone)


def test_a_text_that_is_too_long_is_refused_and_a_question_is_cut(model: Path, place: Path) -> None:
    embedder = build(model, place, max_tokens=20, document_prefix="p: ")
    assert (embedder.max_tokens, embedder.token_overhead) == (20, 4)
    with pytest.raises(
        KbError, match=r"a text of 17 tokens \('読読読.*'…\) was to be embedded, but .* at most 16: cut it"
    ):
        embedder.embed_documents(["見" * 16, "読" * 17])
    assert embedder.embed_documents(["見" * 16]).shape == (1, DIMENSION)
    plain = build(model, place, max_tokens=20, query_prefix="")
    np.testing.assert_array_equal(plain.embed_queries(["读" * 300]), plain.embed_queries(["读" * 18]))


def test_blank_texts_and_half_a_surrogate_pair_have_vectors(model: Path, place: Path) -> None:
    vectors = build(model, place).embed_queries(["", " \n\u3000", "a\ud83d"])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert build(model, place).count_tokens("\ud83d") > 0


@settings(max_examples=60)
@given(
    text=st.text(st.sampled_from("ab 1?会議を。展\n\u3000z🙂A"), max_size=40),
    prefix=st.sampled_from(["", "a", "ab: ", "会"]),
)
def test_never_too_few_tokens_are_counted(model: Path, place: Path, text: str, prefix: str) -> None:
    embedder = prefixed(model, place, prefix)
    sent = len(tokenizer(model)(prefix + text)["input_ids"])
    assert embedder.count_tokens(text) + embedder.token_overhead >= sent


@cache
def prefixed(model: Path, place: Path, prefix: str) -> Any:
    return build(model, place, document_prefix=prefix)


@cache
def tokenizer(model: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(model), local_files_only=True)


def test_the_fingerprint_stays_when_the_folder_moves_and_changes_with_weights_or_prefixes(
    model: Path, place: Path, copied: Path, tmp_path: Path
) -> None:
    here = build(model, place).fingerprint
    assert build(copied, place).fingerprint == here
    assert build(model, place, document_prefix="d: ").fingerprint != here
    assert build(model, place, max_tokens=40).fingerprint == here
    other = write_model(tmp_path / "other", seed=1, prompts={"query": "query: ", "document": ""})
    assert build(other, place).fingerprint != here


CHILD = """
import json, sys
touched = []
ASKS = "socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"
sys.addaudithook(lambda event, args: touched.append(event) if event in ASKS else None)
from kb.components import Parts, build_component
options, texts = json.loads(sys.stdin.read())
embedder = build_component("embedding", "sentence_transformers", options, Parts())
told = [embedder.fingerprint, embedder.dimension, embedder.max_tokens, embedder.token_overhead]
loaded = [name for name in ("torch", "transformers", "sentence_transformers") if name in sys.modules]
vectors = embedder.embed_documents(texts).tolist() if texts else []
import threading
for thread in threading.enumerate():
    if thread is not threading.current_thread() and not thread.daemon:
        thread.join(10)
print(json.dumps([told, loaded, vectors, touched]))
"""


def child(options: dict[str, Any], texts: list[str]) -> Any:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", CHILD],
        input=json.dumps([options, texts]),
        capture_output=True,
        encoding="utf-8",
        check=False,
        cwd=ROOT,
        timeout=240,  # torch takes half a minute to import on a busy machine
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    return json.loads(run.stdout)


def test_a_folder_with_weights_in_the_older_form_loads_without_asking_for_an_address(tmp_path: Path) -> None:
    older = write_model(tmp_path, safetensors=False)
    options = {"model": str(older), "cache_dir": str(tmp_path / "cache")}
    told, _, vectors, touched = child(options, TEXTS)
    assert touched == []
    assert told[1:] == [DIMENSION, MAX_TOKENS, 2]
    np.testing.assert_array_equal(np.float32(vectors), build(older, tmp_path / "cache").embed_documents(TEXTS))


def test_what_the_model_is_is_known_without_loading_it(model: Path, place: Path) -> None:
    known = build(model, place)
    told, loaded, _, touched = child({"model": str(model), "cache_dir": str(place)}, [])
    assert told == [known.fingerprint, DIMENSION, MAX_TOKENS, 2]
    assert loaded == []
    assert touched == []


# --------------------------------------------------------------------------------------- faults


def _cut(model: Path) -> None:
    weights = model / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])


def _without_a_weight(model: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(model / "model.safetensors")
    del weights["encoder.layer.1.output.dense.weight"]
    save_file(weights, model / "model.safetensors")


def _not_a_number(model: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(model / "model.safetensors")
    weights["encoder.layer.1.output.dense.weight"][:] = float("nan")
    save_file(weights, model / "model.safetensors")


def _of_no_kind(model: Path) -> None:
    (model / "config.json").write_text("{}", encoding="utf-8")


def _of_its_own_code(model: Path) -> None:
    modules = json.loads((model / "modules.json").read_text(encoding="utf-8"))
    modules[0]["type"] = "evil.Transformer"
    (model / "modules.json").write_text(json.dumps(modules), encoding="utf-8")
    (model / "evil.py").write_text(f"open({str(model / 'ran')!r}, 'w')\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (
            _cut,
            r"copied cannot be loaded \(SafetensorError.*\): its files may be damaged or not complete; copy or fetch",
        ),
        (_without_a_weight, "the files in .*copied lack some of the model's weights: copy or fetch them again"),
        (_not_a_number, "it gives a vector that is zero or not finite: its weights are damaged"),
        (_of_no_kind, r"copied cannot be loaded \(ValueError: .*: its files may be damaged"),
        (_of_its_own_code, "copied brings code of its own that would have to be run, which kb never does"),
    ],
)
def test_a_damaged_or_unsafe_model_is_one_clear_error(
    copied: Path, tmp_path: Path, spoil: Callable[[Path], None], told: str
) -> None:
    spoil(copied)
    with pytest.raises(ConfigError, match=told) as caught:
        build(copied, tmp_path)
    assert "\n" not in str(caught.value)
    assert not (copied / "ran").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"dimension": 768}, r"dimension = 768, but the model in .* gives vectors of 32 numbers"),
        ({"max_tokens": 513}, r"max_tokens = 513, but the model in .* sees at most 512"),
        ({"max_tokens": 3, "document_prefix": "passage: "}, r"document_prefix: with it .* of 3 tokens are used"),
    ],
)
def test_options_that_do_not_fit_the_model_are_refused(model: Path, place: Path, options: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        build(model, place, **options)


def test_a_device_that_is_not_there_is_named_at_the_first_text(model: Path, place: Path) -> None:
    with pytest.raises(ConfigError, match=r"device = 'quantum' cannot be used \(RuntimeError: .*; leave it empty"):
        build(model, place, device="quantum").embed_queries(["a"])


# ------------------------------------------------------------------------------------ the hub's cache


def test_a_name_that_is_not_in_the_cache_is_one_clear_error_where_there_is_no_network(tmp_path: Path) -> None:
    with pytest.raises(
        ServiceError, match=r"'moka-ai/m3e-base' is no folder, is not \(wholly\) in the cache"
    ) as caught:
        build("moka-ai/m3e-base", tmp_path)
    assert "hf download moka-ai/m3e-base --local-dir m3e-base" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_name_that_is_in_the_cache_needs_no_network(model: Path, tmp_path: Path) -> None:
    repository = tmp_path / "models--owner--tiny"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("0" * 40, encoding="utf-8")
    shutil.copytree(model, repository / "snapshots" / ("0" * 40))
    named = build("owner/tiny", tmp_path)
    assert named.name == "sentence_transformers:tiny"
    assert named.fingerprint == build(model, tmp_path).fingerprint
    np.testing.assert_array_equal(named.embed_queries(TEXTS), build(model, tmp_path).embed_queries(TEXTS))


# ------------------------------------------------------------------------------------------ the whole


def test_documents_in_three_languages_are_ingested_and_found(model: Path, place: Path, tmp_path: Path) -> None:
    documents = tmp_path / "documents"
    documents.mkdir()
    for name, text in zip(("en.md", "zh.md", "ja.md"), TEXTS, strict=True):
        (documents / name).write_text(f"{text}\n", encoding="utf-8")
    options = {"model": str(model), "cache_dir": str(place), "query_prefix": ""}  # so a text is nearest to itself
    own = {"use": "sentence_transformers", "sentence_transformers": options}
    given: dict[str, Any] = {
        "documents_dir": documents,
        "data_dir": tmp_path / "data",
        "embedding": own,
        "store": {"use": "memory"},
        "retrieval": {"cutoff": -1.0},
        "keyword": {"enabled": False},
    }
    with KnowledgeBase.open(**given) as base:
        assert base.ingest().indexed == 3
        assert base.ingest().unchanged == 3
        for name, text in zip(("en.md", "zh.md", "ja.md"), TEXTS, strict=True):
            hits = base.search(text).hits
            assert len(hits) == 3
            assert hits[0].source == name
