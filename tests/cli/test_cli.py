"""The program as a whole: help without torch, version, exit statuses, one line for an error."""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import regard
from regard import cli
from regard.cli import inspect, translate
from regard.errors import FailureError, InputError
from regard.values import FieldError

HEAVY = ("torch", "numpy", "rich", "matplotlib", "tokenizers", "sacrebleu", "huggingface_hub")


def heavy_after(code: str) -> list[str]:
    """Which heavy packages a fresh interpreter has imported after running `code`."""
    script = f"{code}\nimport sys\nprint('\\n' + ' '.join(m for m in {HEAVY!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].split()


@pytest.mark.parametrize("words", [["--help"], ["--version"], *([name, "--help"] for name in cli.COMMANDS)])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    assert heavy_after(f"from regard.cli import main\nassert main({words!r}) == 0") == []


def test_import_regard_imports_nothing_heavy() -> None:
    assert heavy_after("import regard, regard.spec, regard.mask, regard.shapes\nregard.Attention; dir(regard)") == []
    assert "torch" in heavy_after("import regard\nregard.build")


def test_public_names() -> None:
    for name in ("build", "record", "load", "save"):
        assert callable(getattr(regard, name))
    assert {"build", "load", "Attention", "EncoderDecoder", "Rotary", "Causal"} <= set(dir(regard))
    assert regard.Attention is regard.spec.Attention
    with pytest.raises(AttributeError, match="'regard' has no attribute 'Nonsense'"):
        regard.Nonsense  # noqa: B018


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"regard {regard.__version__}\n"


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    out = capsys.readouterr().out
    assert all(f"\n  {name}" in out for name in cli.COMMANDS)


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["fly"], 2, "fly"),
        (["translate"], 2, "MODEL"),
        (["translate", "x", "--beem", "3"], 2, "--beem"),
        (["translate", "x", "--beam", "many"], 2, "--beam"),
        (["inspect", "no-such-folder"], 2, "no-such-folder"),
        (["train", "no-such-recipe.toml"], 2, "no-such-recipe.toml"),
        (["translate", "no-such-folder", "Bonjour", "--json", "--trace"], 2, "--trace"),
    ],
)
def test_bad_usage_is_one_line(words: list[str], status: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == status
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and err.count("\n") == 1 and message in err


def raising(error: BaseException) -> Any:
    def command(model: str) -> None:
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (InputError("a.txt: empty; give a file with sentences"), 2, "error: a.txt: empty; give a file with sentences"),
        (FieldError("must divide 512", "model.heads"), 2, "error: model.heads: must divide 512"),
        (FailureError("the disk is full"), 1, "error: the disk is full"),
        (FileNotFoundError(2, "No such file or directory", "b.txt"), 2, "error: b.txt: No such file or directory"),
        (OSError(28, "No space left on device", "c.bin"), 1, "error: c.bin: No space left on device"),
        (
            ZeroDivisionError("x\ny"),
            1,
            "error: unexpected ZeroDivisionError: x y (run again with --debug to see where)",
        ),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_exit_status(
    error: BaseException, status: int, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(inspect, "command", raising(error))
    assert cli.main(["inspect", "x"]) == status
    assert capsys.readouterr() == ("", line + "\n")
    if status != 130:
        assert cli.main(["inspect", "x", "--debug"]) == status
        shown = capsys.readouterr().err
        assert shown.startswith("Traceback") and shown.endswith(line + "\n")


def test_broken_pipe_is_quiet() -> None:
    script = "import sys; from regard.cli import main; sys.exit(main(['--help']))"
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 1 and errors == b""


class Input:
    """Standard input with these bytes."""

    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)

    def isatty(self) -> bool:
        return False


def test_lines_of_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Input("\ufeffBonjour.\r\n\nÇa va ?\u2028\nfin".encode()))
    assert list(translate.read_lines()) == ["Bonjour.", "", "Ça va ?\u2028", "fin"]
    monkeypatch.setattr(sys, "stdin", Input(b"ok\nab\xff\n"))
    with pytest.raises(InputError, match="line 2, byte 3: not UTF-8"):
        list(translate.read_lines())


def test_translations_keep_order_and_empty_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a stand-in for the model: what is read, asked for and printed."""
    from regard import generate
    from regard.generate.hypothesis import Hypothesis

    asked: list[list[str]] = []

    def upper(net: Any, texts: list[str], **options: Any) -> list[list[Hypothesis]]:
        asked.append(texts)
        assert options["beams"] == 2 and options["banned"] == ["no"]
        return [[Hypothesis([1, 2], text.strip().upper(), -0.5, [-0.5, -0.5], "stop")] for text in texts]

    class Net:
        class tokenizer:
            @staticmethod
            def pieces(ids: list[int]) -> list[str]:
                return [str(i) for i in ids]

    monkeypatch.setattr(regard, "load", lambda name: Net, raising=False)
    monkeypatch.setattr(generate, "translate", upper, raising=False)
    monkeypatch.setattr(translate, "BLOCK", 3)
    monkeypatch.setattr(sys, "stdin", Input(b"a\n\nc\n \ne\n"))
    words = ["translate", "x", "--beam", "2", "--ban", "no"]
    assert cli.main(words) == 0
    assert capsys.readouterr().out == "A\n\nC\n\nE\n"
    assert asked == [["a", "", "c"], [" ", "e"]]
    assert cli.main([*words, "--json", "b"]) == 0
    found = json.loads(capsys.readouterr().out)
    hypothesis = {"text": "B", "score": -0.5, "ids": [1, 2], "logprobs": [-0.5, -0.5], "finish_reason": "stop"}
    assert found == {"source": "b", "text": "B", "hypotheses": [hypothesis | {"pieces": ["1", "2"]}]}


def test_outline_of_a_spec() -> None:
    made = regard.shapes.encoder_decoder(100, hidden_size=32, layers=2, heads=4, intermediate_size=64)
    lines = inspect.outline(made)
    assert lines[0] == "EncoderDecoder(tied_embeddings=True)" and lines[1] == "  encoder: Encoder()"
    assert lines.count("        2 x layer") == 2
    assert any("CrossAttention(heads=4, head_dim=8" in line for line in lines)
    assert max(map(len, lines)) <= 116


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny untrained translator with a tokenizer, as `regard train` leaves one."""
    import torch

    from regard.tokenizer import Tokenizer

    path = tmp_path_factory.mktemp("tiny")
    tokenizer = Tokenizer.train(["Je t'aime.", "I love you.", "Bonjour le monde."], 300)
    made = regard.shapes.encoder_decoder(tokenizer.vocab_size, hidden_size=16, layers=1, heads=2, intermediate_size=16)
    model = regard.build(made, generator=torch.Generator().manual_seed(1))
    model.tokenizer = model.source_tokenizer = tokenizer
    regard.save(model, path)
    return path


def test_inspect(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["inspect", str(folder), "--length", "10"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Structure\n  EncoderDecoder") and "Parameters" in out
    assert cli.main(["inspect", str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    parameters = sum(p.numel() for p in regard.load(folder).parameters())
    assert found["parameters"] == parameters and found["spec"]["kind"] == "EncoderDecoder"


def test_translate_and_trace(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["translate", str(folder), "Je t'aime.", "--max-length", "4"]
    assert cli.main([*words, "--json"]) == 0
    best = json.loads(capsys.readouterr().out)["hypotheses"][0]
    assert len(best["ids"]) <= 4 and sum(best["logprobs"]) / len(best["ids"]) == pytest.approx(best["score"], abs=1e-5)
    assert cli.main([*words, "--n-best", "3"]) == 0
    assert [line.split("\t")[0] for line in capsys.readouterr().out.split("\n")[:-1]][:1] == ["1"]
    assert cli.main([*words, "--trace"]) == 0
    out = capsys.readouterr().out
    assert "shapes   tokens [1, " in out and out.count("  looked  ") == len(best["ids"])


def test_trace_agrees_with_the_search(folder: Path) -> None:
    from regard.generate import translate as search
    from regard.view.trace import trace

    model = regard.load(folder)
    found = search(model, ["Bonjour le monde."], beams=3, max_length=5)[0][0]
    made = trace(model, "Bonjour le monde.", found)
    assert "".join(made.source).strip("▁") == "Bonjour▁le▁monde.</s>" and len(made.steps) == len(found.ids)
    for number, (step, logprob) in enumerate(zip(made.steps, found.logprobs, strict=True), 1):
        assert math.log(step.taken[1]) == pytest.approx(logprob, abs=1e-4)
        assert len(step.so_far) == number and len(step.likeliest) == 5 and len(step.looked) == 3
        assert step.likeliest == sorted(step.likeliest, key=lambda share: -share[1])


def test_attention(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "a.png"
    assert cli.main(["attention", str(folder), "Je t'aime.", "-o", str(picture), "--target", "I love you."]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG") and str(picture) in capsys.readouterr().out
    assert cli.main(["attention", str(folder), "Je t'aime.", "-o", str(tmp_path / "a.gif")]) == 2


def test_evaluate(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, reference, out = (tmp_path / name for name in ("fr.txt", "en.txt", "out.txt"))
    source.write_text("Je t'aime.\nBonjour le monde.\n", encoding="utf-8")
    reference.write_text("I love you.\nHello world.\n", encoding="utf-8")
    words = ["evaluate", str(folder), "--source", str(source), "--reference", str(reference), "--beam", "1"]
    assert cli.main([*words, "--max-length", "4", "--json", "--out", str(out)]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert (
        scores["sentences"] == 2
        and 0 <= scores["bleu"] < 100
        and len(out.read_text(encoding="utf-8").splitlines()) == 2
    )
    reference.write_text("I love you.\n", encoding="utf-8")
    assert cli.main(words) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "2" in err and "1" in err
