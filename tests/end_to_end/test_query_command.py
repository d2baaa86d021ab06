"""`python -m kb.query`: what it prints, where, and its exit status; as a process, with pipes and on a terminal."""

from __future__ import annotations

import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.commands import INGEST, QUERY, ROOT, command, environment, on_terminal, one_line, run, screen

LEAVE = "# Leave\n\nYou get 25 days of leave a year.\n\n## Sick leave\n\nCall before nine o'clock.\n"
REFUND = "# 退款\n\n退款政策：订单付款后三十天内可以申请退款，款项会在五个工作日之内退回到您原来的付款方式。\n"
EVIL = "# Evil \x1b[31mpaint\n\nThe evil \x1b]0;owned\x07 word is \x9b2Jxyzzy\x00.\n"

QUESTION = "how many days of leave"
ANSWER = "You get 25 days of leave a year. [1]\n\nSources:\n  [1] leave.md › Leave\n"
MARK = re.compile(r"\x1b\[[\d;]*m|\x1b\]8;;[!-~]*\x1b\\")
"""What we write to a terminal ourselves."""

CPU_SECONDS_OF_HELP = 0.3


def write_documents(folder: Path) -> Path:
    documents = folder / "knowledge_base"
    documents.mkdir()
    for name, text in (("leave.md", LEAVE), ("退款.md", REFUND), ("evil.md", EVIL)):
        (documents / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three documents that have been ingested; tests only read it."""
    folder = write_documents(tmp_path_factory.mktemp("query"))
    done = run(INGEST, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


@pytest.fixture
def own_base(base: Path, tmp_path: Path) -> Path:
    """A copy for a test that changes it; made from it, so it was ingested from another folder."""
    folder = write_documents(tmp_path)
    assert run(INGEST, "--quiet", cwd=folder).returncode == 0
    return folder


# ------------------------------------------------------------------------------------------ the answer


def test_an_answer_is_all_of_stdout_with_its_sources_and_status_0(base: Path) -> None:
    done = run(QUERY, QUESTION, cwd=base)
    assert (done.stdout, done.stderr, done.returncode) == (ANSWER, "", 0)


def test_words_need_no_quotes_and_options_may_stand_between(base: Path) -> None:
    assert run(QUERY, "how", "many", "--top-k", "1", "days", "of", "leave", cwd=base).stdout == ANSWER


def test_the_json_object_has_the_documented_keys_and_quotes_that_stand_at_their_span(base: Path) -> None:
    done = run(QUERY, QUESTION, "--json", "--top-k", "2", "--cutoff", "-1", cwd=base)
    found = json.loads(done.stdout)
    assert list(found) == [
        "question", "answered", "text", "citations", "claims", "support", "hits", "cutoff", "best_score", "embedder",
        "generator", "seconds", "usage",
    ]  # fmt: skip
    assert (found["question"], found["answered"], found["cutoff"]) == (QUESTION, True, -1)
    assert (found["embedder"], found["generator"]) == ("hashing", "extractive")
    citation = found["citations"][0]
    assert list(citation) == ["number", "source", "page", "heading", "start", "end", "quote"]
    assert LEAVE[citation["start"] : citation["end"]] == citation["quote"] == "You get 25 days of leave a year."
    assert len(found["hits"]) == 2
    assert list(found["hits"][0]) == [
        "chunk_id", "source", "page", "heading", "score", "scored_by", "similarity", "text",
    ]  # fmt: skip
    assert found["best_score"] == max(hit["similarity"] for hit in found["hits"])
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)


def test_a_question_without_an_answer_has_status_1_and_shows_what_was_looked_at(base: Path) -> None:
    done = run(QUERY, "quantum chromodynamics", cwd=base)
    assert done.returncode == 1
    assert done.stdout.startswith("The documents do not answer this question.\n\nNearest passages:\n")


def test_notes_stand_on_stderr_beside_json(base: Path) -> None:
    done = run(QUERY, QUESTION, "--json", "--cutoff", "0.99", cwd=base)
    assert one_line(done).startswith("note: the cutoff 0.99 removed all; the best similarity was ")
    assert (json.loads(done.stdout)["answered"], done.returncode) == (False, 1)


def test_streaming_prints_the_same(base: Path) -> None:
    questions = f"{QUESTION}\n退款政策\nquantum chromodynamics\n"
    whole, streamed = run(QUERY, cwd=base, stdin=questions), run(QUERY, "--stream", cwd=base, stdin=questions)
    assert whole.stdout.startswith(ANSWER)
    assert (streamed.stdout, streamed.returncode) == (whole.stdout, whole.returncode) == (whole.stdout, 1)


def test_explain_tells_what_became_of_every_candidate(base: Path) -> None:
    done = run(QUERY, "--explain", cwd=base, stdin=f"{QUESTION}\nquantum chromodynamics\n")
    answered, unanswered = done.stdout.split("The documents do not answer this question.")
    assert answered.startswith(ANSWER + "\ncutoff 0.150 on similarity; 1 kept, ")
    assert re.search(r"^dropped   fused .* evil\.md.*: similarity .* is below the cutoff", answered, re.MULTILINE)
    # Its nearest passages are shown as hits, and are none.
    assert re.search(r"^cutoff .*; 0 kept, [1-9]", unanswered, re.MULTILINE)
    assert not re.search(r"^kept ", unanswered, re.MULTILINE)
    found = json.loads(run(QUERY, QUESTION, "--explain", "--json", cwd=base).stdout)
    assert {"source", "text", "similarity", "reason"} <= set(found["dropped"][0])
    assert found["notes"] == []


def test_search_only_shows_hits_and_writes_no_answer(base: Path) -> None:
    done = run(QUERY, "--search-only", QUESTION, cwd=base)
    assert re.match(
        r"1\. leave\.md › Leave  \(fused \d\.\d{3} similarity 0\.\d{3}\)\n   # Leave You get 25 ", done.stdout
    )
    assert done.returncode == 0
    found = json.loads(run(QUERY, "--search-only", "--json", "--top-k", "1", QUESTION, cwd=base).stdout)
    assert list(found) == ["question", "hits", "cutoff", "best_score"]
    assert [hit["source"] for hit in found["hits"]] == ["leave.md"]
    nothing = run(QUERY, "--search-only", "--cutoff", "0.99", QUESTION, cwd=base)
    assert nothing.stdout.startswith("nothing at or above the cutoff 0.990; the best similarity was 0.")
    assert nothing.returncode == 1


def test_chinese_with_the_embedded_default_and_chroma(tmp_path: Path) -> None:
    write_documents(tmp_path)
    real: dict[str, str | None] = {"KB_EMBEDDING__USE": None, "KB_STORE__USE": None}
    collection = ["--collection", "知识库"]
    assert run(INGEST, *collection, "--quiet", cwd=tmp_path, env=real).returncode == 0
    done = run(QUERY, "付款以后多久可以退款？", "--json", *collection, cwd=tmp_path, env=real)
    found = json.loads(done.stdout)
    assert (done.returncode, done.stderr, found["embedder"]) == (0, "", "e5")
    assert found["citations"][0]["source"] == "退款.md"
    assert "三十天内" in found["text"]


# --------------------------------------------------------------------------------- where questions come from


def test_a_hyphen_reads_the_question_from_stdin(base: Path) -> None:
    assert run(QUERY, "-", cwd=base, stdin=f"\ufeff{QUESTION}\r\n").stdout == ANSWER


def test_questions_are_utf_8_when_the_locale_says_nothing(base: Path) -> None:
    nothing: dict[str, str | None] = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for arguments in (["-"], ["退款政策"]):
        done = run(QUERY, *arguments, "--json", cwd=base, stdin="退款政策\n", env=nothing)
        assert json.loads(done.stdout)["question"] == "退款政策"


def test_bytes_that_are_no_text_are_replaced_and_asked_all_the_same(base: Path) -> None:
    done = run(QUERY, "-", "--json", cwd=base, stdin=QUESTION.encode() + b" \xff\xfe")
    assert (json.loads(done.stdout)["answered"], done.stderr) == (True, "")
    broken = os.fsdecode(QUESTION.encode() + b" \xff")
    done = run(QUERY, broken, "--json", cwd=base)
    assert (json.loads(done.stdout)["question"], done.stderr) == (QUESTION + " \ufffd", "")


def test_lines_on_stdin_are_asked_one_by_one_and_the_worst_status_counts(base: Path) -> None:
    lines = f"{QUESTION}\n\nquantum chromodynamics\n退款政策\n"
    done = run(QUERY, "--json", cwd=base, stdin=lines, PYTHONIOENCODING="utf-8")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(a["question"], a["answered"], bool(a["citations"]), bool(a["hits"])) for a in answers] == [
        (QUESTION, True, True, True), ("quantum chromodynamics", False, False, True), ("退款政策", True, True, True),
    ]  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")
    assert '"question": "退款政策"' in done.stdout  # as it is, where UTF-8 is understood


def test_an_error_of_one_line_does_not_end_the_others(base: Path) -> None:
    done = run(QUERY, cwd=base, stdin=f"{QUESTION}\n{QUESTION}\n", KB_GENERATION__USE="openai")
    assert (done.returncode, done.stdout) == (2, "")
    assert [line.partition("OPENAI_API_KEY")[1] for line in done.stderr.splitlines()] == ["OPENAI_API_KEY"] * 2


# --------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([""], "the question is empty"),
        ([" \u3000\u200b "], "the question is empty"),
        (["-"], "the question is empty"),
        ([], "there is no question"),
        (["x", "--top-k", "0"], "argument --top-k: should be a whole number from 1"),
        (["x", "--top-k", "two"], "argument --top-k: should be a whole number from 1"),
        (["x", "--cutoff", "1.5"], "argument --cutoff: should be a similarity from -1 to 1"),
        (["x", "--cutoff", "nan"], "argument --cutoff: should be a similarity from -1 to 1"),
        (["x", "--collection", " "], "argument --collection: should not be blank"),
        (["x", "--config", ""], "argument --config: should not be blank"),
        (["x", "--colour\x1b[31m"], "unrecognized arguments: --colour[31m"),
        (["x", "--config", "nowhere.toml"], "there is no such configuration file"),
        (["x", "--collection", "notes"], "into the collection 'notes'"),
    ],
)
def test_what_was_asked_wrongly_is_one_line_and_status_2(base: Path, arguments: list[str], says: str) -> None:
    done = run(QUERY, *arguments, cwd=base)
    line = one_line(done)
    assert line.startswith("error: ")
    assert says in line
    assert (done.stdout, done.returncode) == ("", 2)


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"KB_EMBEDDING__USE": "openai"}, "needs an API key, but OPENAI_API_KEY is not set"),
        ({"KB_EMBEDDING__HASHING__DIMENSION": "64"}, "was built with the embedder hashing:256"),
        ({"KB_DATA_DIR": "knowledge_base/leave.md"}, "nothing has been ingested"),
        ({"KB_RETRIEVAL__TOP_K": "many"}, "[retrieval] top_k"),
    ],
)
def test_what_is_configured_wrongly_is_one_line_and_status_2(
    base: Path, variables: dict[str, str | None], says: str
) -> None:
    done = run(QUERY, QUESTION, cwd=base, env=variables)
    line = one_line(done)
    assert line.startswith("error: ")
    assert says in line
    assert (done.stdout, done.returncode) == ("", 2)


def test_a_broken_configuration_names_file_and_place(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("data_dir = = 3")
    done = run(QUERY, "x", cwd=tmp_path)
    assert re.fullmatch(r"error: .*config\.toml: this is no valid TOML.* line 1.*", one_line(done))
    (tmp_path / "config.toml").write_text("[retrieval]\ntop_kk = 3\n")
    done = run(QUERY, "x", cwd=tmp_path)
    assert re.fullmatch(r"error: .*config\.toml: \[retrieval\] top_kk: unknown key; allowed: .*", one_line(done))
    assert done.returncode == 2


def test_another_collection_is_named_when_the_one_asked_for_is_not_there(base: Path) -> None:
    done = run(QUERY, QUESTION, "--collection", "notes", cwd=base)
    assert one_line(done).endswith(
        "Ingest first: python -m pipelines.ingest --collection notes; "
        "or ask another collection that is there: 'knowledge_base'"
    )


def test_what_nobody_foresaw_has_a_traceback_and_status_70(base: Path, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "kb", tmp_path / "kb", ignore=shutil.ignore_patterns("__pycache__"))
    fault = "from kb.settings import ComponentOptions as Options\n"
    fault += "def build(options, parts):\n    raise RuntimeError('\\x1b[2J!')\n"
    (tmp_path / "kb" / "embedding" / "faulty.py").write_text(fault)
    done = run(QUERY, QUESTION, cwd=base, PYTHONPATH=str(tmp_path), KB_EMBEDDING__USE="faulty")
    assert (done.stdout, done.returncode) == ("", 70)
    assert done.stderr.startswith("Traceback (most recent call last):")
    assert done.stderr.endswith("RuntimeError: [2J!\n")


# ------------------------------------------------------------------------------- pipes, encodings, signals


def shell(line: str, cwd: Path, **variables: str | None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"],
        cwd=cwd, env=environment(**variables), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


ASKED = shlex.join(command(QUERY, QUESTION))


def test_a_reader_that_has_seen_enough_is_no_error(base: Path) -> None:
    for line in (
        f"{ASKED} --json | true",
        f"{shlex.join(command(QUERY))} --help | true",
    ):
        done = shell(line, base)
        assert (done.stderr, done.returncode) == ("", 0)


def test_a_full_disk_is_one_line_and_status_2(base: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    done = shell(f"{ASKED} > /dev/full", base)
    assert one_line(done) == "error: the output cannot be written: No space left on device"
    assert done.returncode == 2


def test_closed_streams_are_no_error(base: Path) -> None:
    assert shell(f"{ASKED} >&-", base).returncode == 0
    done = shell(f"{ASKED} 2>&- <&-", base)
    assert (done.stdout, done.returncode) == (ANSWER, 0)


def test_an_output_that_takes_only_ascii_breaks_nothing(base: Path) -> None:
    done = run(QUERY, "退款政策", cwd=base, PYTHONIOENCODING="ascii")
    assert done.stdout.startswith(r"\u9000\u6b3e")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(run(QUERY, "退款政策 \U0001f600", "--json", cwd=base, PYTHONIOENCODING="ascii").stdout)
    assert found["question"] == "退款政策 \U0001f600"
    assert found["citations"][0]["quote"] in REFUND


@pytest.mark.parametrize("options", [["--stream", "--explain"], ["--search-only"], ["--json"]])
def test_no_control_character_of_a_document_is_printed(base: Path, options: list[str]) -> None:
    done = run(QUERY, "evil word xyzzy", *options, cwd=base)
    assert "xyzzy" in done.stdout
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", done.stdout)


def test_ctrl_c_is_one_line_and_status_130(base: Path) -> None:
    process = subprocess.Popen(
        command(QUERY),
        cwd=base,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{QUESTION}\n".encode())
    process.stdin.flush()
    process.stdout.readline()  # it has begun, and will wait for the next question
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (errors, process.returncode) == (b"interrupted\n", 130)


@pytest.mark.parametrize("start", [["-m", QUERY, "--help"], ["-m", INGEST, "--help"], ["-c", "import kb"]])
def test_help_and_import_are_instant(start: list[str]) -> None:
    def cpu_seconds() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *start], cwd=ROOT, env=environment(), capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    # Processor time, and the best of three: whatever else the machine does is not measured.
    assert min(cpu_seconds() for _ in range(3)) < CPU_SECONDS_OF_HELP


# ----------------------------------------------------------------------------------- the folder has changed


def test_a_changed_folder_is_one_line_of_warning_whose_command_mends_it(own_base: Path) -> None:
    (own_base / "knowledge_base" / "new.md").write_text("# New\n\nA new thing.\n")
    done = run(QUERY, QUESTION, "--json", cwd=own_base)
    line = one_line(done)
    assert line.startswith("warning: the folder has changed since the last ingest (files: 1 new); to bring it in: ")
    assert (json.loads(done.stdout)["answered"], done.returncode) == (True, 0)
    assert line.endswith("to bring it in: python -m pipelines.ingest")
    assert run(INGEST, "--quiet", cwd=own_base).returncode == 0
    assert run(QUERY, QUESTION, cwd=own_base).stderr == ""


def test_the_command_in_the_warning_names_folder_collection_and_configuration(tmp_path: Path) -> None:
    (tmp_path / "my notes").mkdir()
    (tmp_path / "my notes" / "leave.md").write_text(LEAVE)
    (tmp_path / "other.toml").write_text('data_dir = "elsewhere"\n')
    chosen = ["--collection", "My notes", "--config", "other.toml"]
    assert run(INGEST, "my notes", *chosen, cwd=tmp_path).returncode == 0
    (tmp_path / "my notes" / "leave.md").write_text(LEAVE + "More.\n")
    words = shlex.split(one_line(run(QUERY, QUESTION, *chosen, cwd=tmp_path)).partition("to bring it in: ")[2])
    assert words[:3] == ["python", "-m", INGEST]
    assert words[3:] == [str(tmp_path / "my notes"), *chosen]
    assert run(INGEST, *words[3:], cwd=tmp_path).returncode == 0
    assert run(QUERY, QUESTION, *chosen, cwd=tmp_path).stderr == ""


def test_a_folder_that_is_gone_is_a_warning_and_the_answer_stands(own_base: Path) -> None:
    shutil.rmtree(own_base / "knowledge_base")
    done = run(QUERY, QUESTION, cwd=own_base)
    assert (done.stdout, done.returncode) == (ANSWER, 0)
    assert re.fullmatch(r"warning: the folder .*knowledge_base is not there", one_line(done))


# ------------------------------------------------------------------------------------------- on a terminal


def test_a_terminal_shows_colours_wrapped_lines_and_sources_as_links(base: Path) -> None:
    status, seen = screen(QUERY, "退款政策", cwd=base, columns=40)
    shown = MARK.sub("", seen)
    answer, sources = shown.split("\n\n")
    assert status == 0
    assert len(answer.splitlines()) > 1
    assert max(map(cell_len, shown.splitlines())) <= 40
    assert answer.replace("\n", "") == REFUND.splitlines()[2] + " [1]"
    assert sources == "[1] 退款.md › 退款\n"
    assert "\x1b[1;36m[1]\x1b[0m" in seen
    address = (base / "knowledge_base" / "退款.md").as_uri()
    assert f"\x1b]8;;{address}\x1b\\退款.md › 退款\x1b]8;;\x1b\\" in seen


def test_no_color_and_a_terminal_without_abilities_are_respected(base: Path) -> None:
    assert not re.search(r"\x1b\[", screen(QUERY, QUESTION, cwd=base, NO_COLOR="1")[1])
    plain = screen(QUERY, QUESTION, cwd=base, TERM="dumb")[1]
    assert plain == "You get 25 days of leave a year. [1]\n\n[1] leave.md › Leave\n"


@pytest.mark.parametrize("options", [["--stream", "--explain"], ["--search-only"]])
def test_no_escape_sequence_of_a_document_reaches_a_terminal(base: Path, options: list[str]) -> None:
    _, seen = screen(QUERY, "evil word xyzzy", *options, cwd=base)
    assert "xyzzy" in seen
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", MARK.sub("", seen))
    assert "\x1b[31m" not in seen


def test_streaming_on_a_terminal_looks_the_same(base: Path) -> None:
    assert screen(QUERY, "退款政策", "--stream", cwd=base, columns=30) == screen(
        QUERY, "退款政策", cwd=base, columns=30
    )


def test_the_prompt_answers_until_ctrl_d_and_an_error_does_not_end_it(own_base: Path) -> None:
    prompt = on_terminal(QUERY, cwd=own_base)
    at = prompt.wait_for("? ")
    prompt.type(f"{QUESTION}\r")
    at = prompt.wait_for("leave.md › Leave", at)
    at = prompt.wait_for("? ", at)
    shutil.rmtree(own_base / "kb_data")
    prompt.type("and now\r")
    at = prompt.wait_for("error: nothing has been ingested", at)
    at = prompt.wait_for("? ", at)
    assert run(INGEST, cwd=own_base).returncode == 0
    prompt.type("\r")
    at = prompt.wait_for("? ", at)
    prompt.type("退款政策\r")
    at = prompt.wait_for("退款.md › 退款", at)
    prompt.wait_for("? ", at)
    prompt.type("\x04")
    status, _ = prompt.end()
    assert status == 0


def test_the_prompt_edits_its_line_and_remembers_questions(base: Path) -> None:
    pytest.importorskip("readline")
    prompt = on_terminal(QUERY, "--json", cwd=base)
    at = prompt.wait_for("? ")
    prompt.type("leave of days XX\x7f\x7f\x01how many \r")  # two backspaces, to the beginning of the line, and insert
    at = prompt.wait_for('"question": "how many leave of days"', at)
    at = prompt.wait_for("? ", at)
    prompt.type("\x1b[Aplease\r")  # up
    at = prompt.wait_for('"question": "how many leave of days please"', at)
    prompt.wait_for("? ", at)
    status, seen = prompt.end(insisting="\x03")
    assert status == 130
    assert seen.endswith("\ninterrupted\n")


def test_the_prompt_is_a_conversation_whose_sources_can_be_shown_and_that_can_begin_anew(base: Path) -> None:
    prompt = on_terminal(QUERY, cwd=base)
    at = prompt.wait_for("? ")
    prompt.type(f"{QUESTION}\r")
    at = prompt.wait_for("leave.md › Leave", at)
    at = prompt.wait_for("? ", at)
    prompt.type("why?\r")
    at = prompt.wait_for("searched as: why? (days of leave)", at)
    at = prompt.wait_for("? ", at)
    prompt.type("/sources\r")
    at = prompt.wait_for("[1] leave.md › Leave", at)
    at = prompt.wait_for("? ", at)
    prompt.type("/sorces\r")
    at = prompt.wait_for("there is no /sorces; /help shows what there is", at)
    prompt.type("/help\r")
    at = prompt.wait_for("/new      begin anew", at)
    at = prompt.wait_for("? ", at)
    prompt.type("/new\r")
    at = prompt.wait_for("A new conversation.", at)
    at = prompt.wait_for("? ", at)
    prompt.type("/sources\r")
    at = prompt.wait_for("No source has been cited yet.", at)
    at = prompt.wait_for("? ", at)
    prompt.type("why?\r")
    at = prompt.wait_for("? ", at + len("why?\r"))
    prompt.type("\x04")
    status, seen = prompt.end()
    assert status == 0
    assert seen.count("searched as") == 1


def test_lines_of_a_file_are_questions_by_themselves(base: Path) -> None:
    done = run(QUERY, "--json", cwd=base, stdin=f"{QUESTION}\nwhy?\n/sources\n")
    assert [json.loads(line)["question"] for line in done.stdout.splitlines()] == [QUESTION, "why?", "/sources"]
    assert "searched as" not in done.stderr
