"""A whole run: from the recipe to the model folder."""

import json

import pytest
import torch

import regard
from regard.errors import InputError
from regard.evaluate import translation_scores
from regard.train import run
from regard.train.config import Recipe

RECIPE = """
name = "tiny"
seed = 3
[model]
hidden_size = 16
layers = 1
heads = 2
intermediate_size = 32
norm = "pre"
[tokenizer]
vocab_size = 320
[data]
kind = "tsv"
source = "1"
target = "2"
train = "PLACE/train.tsv"
valid = "PLACE/valid.tsv"
test = { small = "PLACE/test.tsv" }
[train]
updates = 12
batch_tokens = 300
evaluate_every = 4
log_every = 2
average = 2
tensorboard = false
[schedule]
warmup = 4
"""


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE.replace("PLACE", tmp_path.as_posix()), encoding="utf-8")
    words = [f"{a}{b}" for a in ("la", "mi", "tu", "so", "re") for b in ("ne", "ka", "po", "zu")]
    random = torch.Generator().manual_seed(0)
    for name, count in (("train", 150), ("valid", 12), ("test", 6)):
        rows = [torch.randint(20, (1 + i % 5,), generator=random).tolist() for i in range(count)]
        lines = [f"{' '.join(words[i] for i in row)}\t{' '.join(words[i].upper() for i in row)}\n" for row in rows]
        (tmp_path / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
    return path


@pytest.fixture
def unscored(monkeypatch):
    """Leaves translating out, which the tests of generation and the end-to-end test do."""
    monkeypatch.setattr(run, "translate_and_score", lambda *args: translation_scores(["a b c d"], ["a b c d"]))


def test_run_folder(tmp_path, recipe, unscored, capsys):
    result = run.train(recipe, ["train.updates=10"], tmp_path / "run")
    assert (result.reason, result.updates) == ("updates", 10)
    assert result.scores["small"]["bleu"] == pytest.approx(100.0)
    names = {p.name for p in (tmp_path / "run").iterdir()}
    expected = "recipe.toml config.json model.safetensors tokenizer.json results.json log.jsonl loss.png checkpoints"
    assert names >= set(expected.split())
    assert Recipe.read(tmp_path / "run/recipe.toml").train.updates == 10
    results = json.loads((tmp_path / "run/results.json").read_text(encoding="utf-8"))
    assert results["nll"] == pytest.approx(result.nll)
    model = regard.load(tmp_path / "run")
    assert model.tokenizer.vocab_size == 320
    # the final weights are the mean of the last two checkpoints, which can be loaded too
    parts = [regard.load(tmp_path / f"run/checkpoints/step-{s}") for s in (8, 10)]
    for name, p in model.named_parameters():
        mean = sum(part.get_parameter(name).double() for part in parts) / 2
        torch.testing.assert_close(p.double(), mean, rtol=1e-6, atol=1e-8)
    assert "training pairs" in capsys.readouterr().err


def test_resume_through_the_recipe_is_bit_for_bit(tmp_path, recipe, unscored):
    run.train(recipe, (), tmp_path / "whole", quiet=True)
    run.train(recipe, ["train.updates=8"], tmp_path / "parts", quiet=True)
    run.train(recipe, (), tmp_path / "parts", resume=True, quiet=True)
    first, second = (regard.load(tmp_path / name) for name in ("whole", "parts"))
    for name, p in first.named_parameters():
        assert torch.equal(p, second.get_parameter(name)), name


def test_a_folder_with_a_run_is_not_overwritten(tmp_path, recipe, unscored):
    run.train(recipe, ["train.updates=1"], tmp_path / "run", quiet=True)
    with pytest.raises(InputError, match="holds a run already: add --resume"):
        run.train(recipe, (), tmp_path / "run", quiet=True)
    with pytest.raises(InputError, match="differs from the recipe in seed, optimizer.lr: a run goes on"):
        run.train(recipe, ["seed=4", "optimizer.lr=1"], tmp_path / "run", resume=True, quiet=True)


def test_pairs_over_the_limit_are_counted_and_told(tmp_path, recipe, unscored, capsys):
    run.train(recipe, ["train.updates=1", "train.max_length=6"], tmp_path / "run", quiet=True)
    told = capsys.readouterr().err
    assert "pairs left out: empty or over train.max_length = 6 tokens" in told
    with pytest.raises(InputError, match="no training pair is left"):
        run.train(recipe, ["train.max_length=1"], tmp_path / "other", quiet=True)


def test_separate_vocabularies(tmp_path, recipe, unscored):
    run.train(recipe, ["train.updates=1", "tokenizer.joint=false"], tmp_path / "run", quiet=True)
    model = regard.load(tmp_path / "run")
    assert model.source_tokenizer.fingerprint() != model.tokenizer.fingerprint()
    assert model.encoder.embedding.weight is not model.decoder.embedding.weight


def test_end_to_end(tmp_path, recipe):
    """Words to capitals is learnt by heart, scored by generated text on the way and at the end; the EMA is saved."""
    lines = sorted(
        {line for line in (tmp_path / "train.tsv").read_text(encoding="utf-8").splitlines() if " " not in line}
    )
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines), encoding="utf-8")
    given = "train.updates=120 optimizer.lr=1e-2 schedule.warmup=10 schedule.kind=cosine model.dropout=0.0"
    more = "train.average=0 train.ema=0.9 train.score_sentences=4 train.metric=chrf train.evaluate_every=40"
    result = run.train(recipe, [*given.split(), *more.split()], tmp_path / "run", quiet=True)
    assert result.nll < 0.3
    assert result.scores["small"]["exact"] == 1.0
    assert result.scores["small"]["sentences"] == len(lines) >= 10
    valid = [line for line in run.history(tmp_path / "run") if line["event"] == "valid"]
    assert [line["update"] for line in valid] == [40, 80, 120]
    assert valid[-1]["nll"] == pytest.approx(result.nll, rel=1e-5)
    assert valid[-1]["exact"] == 1.0
    assert valid[-1]["nll"] < valid[0]["nll"]
