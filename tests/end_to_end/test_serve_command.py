"""`python -m kb.serve`: what it refuses before it listens, and how it ends."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.commands import one_line, run

SERVE = "kb.serve"
TOKEN = "KNOWLEDGE_BASE_TOKEN"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_others_are_let_in_with_a_token_only(tmp_path: Path, host: str) -> None:
    done = run(SERVE, "--host", host, "--port", "0", cwd=tmp_path, env={TOKEN: None})
    assert done.returncode == 2
    said = one_line(done)
    assert said.startswith("error: ")
    assert host in said
    assert TOKEN in said


@pytest.mark.parametrize("token", ["short", "x" * 15, "ein Schlüssel von genug Länge", "a\x07b" * 10])
def test_a_token_that_can_be_guessed_is_none_and_is_not_shown(tmp_path: Path, token: str) -> None:
    done = run(SERVE, "--port", "0", cwd=tmp_path, env={TOKEN: token})
    assert done.returncode == 2
    assert "at least 16 characters" in one_line(done)
    assert token not in done.stderr + done.stdout


def test_a_token_file_has_to_be_there(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[web]\ntoken_file = "secret/token"\n')
    done = run(SERVE, "--port", "0", cwd=tmp_path, env={TOKEN: None})
    assert done.returncode == 2
    assert str(tmp_path / "secret/token") in one_line(done)


def test_a_port_that_is_taken_is_named_with_what_to_do(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(SERVE, "--port", str(port), cwd=tmp_path)
    assert done.returncode == 2
    assert f"port {port}" in one_line(done)
    assert "--port" in done.stderr


def test_a_name_that_is_no_address_of_this_machine(tmp_path: Path) -> None:
    done = run(SERVE, "--host", "nowhere.invalid", cwd=tmp_path, env={TOKEN: "t" * 20})
    assert done.returncode == 2
    assert "nowhere.invalid" in one_line(done)


@pytest.mark.parametrize(
    ("setting", "named"),
    [
        ('uploads = "../up"', "uploads"),
        ('uploads = ".hidden"', "uploads"),
        ('allowed_origins = ["*"]', "allowed_origins"),
        ('allowed_origins = ["https://a.example/path"]', "allowed_origins"),
        ('tls_cert_file = "a.pem"', "tls_cert_file and tls_key_file go together"),
        ('token_env = "s3cr3t-key-that-was-pasted"', "token_env"),
        ("port = 70000", "port"),
        ('deletable = "everything"', "deletable"),
    ],
)
def test_a_wrong_setting_is_told_with_its_key(tmp_path: Path, setting: str, named: str) -> None:
    (tmp_path / "config.toml").write_text(f"[web]\n{setting}\n")
    done = run(SERVE, cwd=tmp_path)
    assert done.returncode == 2
    assert named in one_line(done)
    assert "s3cr3t" not in done.stderr


def test_a_certificate_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[web]\ntls_cert_file = "cert.pem"\ntls_key_file = "key.pem"\n')
    done = run(SERVE, "--port", "0", cwd=tmp_path)
    assert done.returncode == 2
    assert str(tmp_path / "cert.pem") in one_line(done)


def test_without_its_packages_the_pip_line_is_printed(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("import sys\nsys.modules['fastapi'] = None\n")
    done = run(SERVE, "--port", "0", cwd=tmp_path, env={"PYTHONPATH": f"{hidden}:{Path(__file__).parents[2]}"})
    assert done.returncode == 2
    assert "'fastapi'" in one_line(done)
    assert "pip install" in done.stderr
