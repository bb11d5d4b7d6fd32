"""Recipes: strict reading, overrides, writing back."""

import tomllib

import pytest

from regard.errors import InputError
from regard.train import toml
from regard.train.config import Recipe, changes

TEXT = """
name = "small"
[model]
shape = "encoder_decoder"
hidden_size = 32
layers = 2
heads = 4
norm = "pre"
[tokenizer]
vocab_size = 300
[train]
updates = 10
[optimizer]
betas = [0.9, 0.99]
[schedule]
kind = "cosine"
warmup = 2
"""


def read(tmp_path, text=TEXT, *overrides):
    path = tmp_path / "recipe.toml"
    path.write_text(text, encoding="utf-8")
    return Recipe.read(path, overrides)


def test_a_recipe_is_read_and_written_back(tmp_path):
    recipe = read(tmp_path)
    assert recipe.optimizer.betas == (0.9, 0.99)
    assert recipe.schedule.kind == "cosine"
    assert recipe.model.arguments == {"hidden_size": 32, "layers": 2, "heads": 4, "norm": "pre"}
    assert recipe.train.label_smoothing == 0.1
    assert recipe.train.smoothing_convention == "uniform"
    text = recipe.dumps()
    assert 'kind = "phrasebook"' in text
    assert read(tmp_path, text) == recipe
    made = recipe.model.make(300)
    assert made.decoder.stack.hidden_size == 32
    assert len(made.decoder.stack.layers) == 2


def test_overrides(tmp_path):
    given = "train.updates=99 name=other optimizer.lr=1e-3 data.lowercase=true model.heads=8 train.ema=0.9"
    recipe = read(tmp_path, TEXT, *given.split())
    assert (recipe.train.updates, recipe.name, recipe.optimizer.lr) == (99, "other", 0.001)
    assert (recipe.data.lowercase, recipe.model.arguments["heads"], recipe.train.ema) == (True, 8, 0.9)
    found = changes(read(tmp_path), recipe)
    assert sorted(found) == ["data.lowercase", "model.heads", "name", "optimizer.lr", "train.ema", "train.updates"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("train.updatez=3", "train.updatez: unknown key; allowed here: accumulate"),
        ("model.head=3", "model.head: unknown key; allowed here: shape, init, spec, hidden_size"),
        ("model.vocab_size=3", "model.vocab_size: unknown key; it follows from the tokenizer"),
        ("model.heads=2.5", "model.heads: expected a whole number, got 2.5"),
        ("model.norm=both", "model.norm: got 'both', allowed: 'pre', 'post'"),
        ("model.shape=decoder", "model.shape: got 'decoder', allowed: 'encoder_decoder'"),
        ("train.precision=float8", "train.precision: got 'float8', allowed: 'float32', 'bfloat16', 'float16'"),
        ("optimizer.betas=[0.9]", "optimizer.betas: expected 2 values, got 1"),
        ("optimizer.lr=-1", "optimizer.lr: got -1.0, must be positive"),
        ("train.keep=0", "train.keep: got 0, must be at least 1"),
        ("train.metric=bleu", 'train.metric: "bleu" needs score_sentences'),
        ("train.device=tpu", "train.device: got 'tpu', allowed: 'auto', 'cpu'"),
        ("train=3", "train: expected a table for TrainConfig, got 3"),
        ("optimizer.lr=nan", "optimizer.lr: got nan, must be a finite number"),
        ("optimizer.betas=[nan, 0.9]", "optimizer.betas[0]: got nan, must be a finite number"),
        ("optimizer.weight_decay=-inf", "optimizer.weight_decay: got -inf, must be a finite number"),
        ("schedule.scale=inf", "schedule.scale: got inf, must be a finite number"),
        ("schedule.minimum=nan", "schedule.minimum: got nan, must be a finite number"),
        ("train.epochs=inf", "train.epochs: got inf, must be a finite number"),
        ("train.clip=nan", "train.clip: got nan, must be a finite number"),
        ("train.explode=nan", "train.explode: got nan, must be a finite number"),
        ("decode.length_penalty=nan", "decode.length_penalty: got nan, must be a finite number"),
        ("decode.batch_tokens=0", "decode.batch_tokens: got 0, must be at least 1"),
        ("data.max_ratio=nan", "data.max_ratio: got nan, must be a finite number"),
        ("data.seed=-1", "data.seed: got -1, must be at least 0"),
        ("seed=-1", "seed: got -1, must be at least 0"),
        ("seed=18446744073709551616", "seed: the whole number does not fit into 64 bits"),
        ("train.updates=9223372036854775808", "train.updates: the whole number does not fit"),
        ("train.threads=1000000000", "train.threads: got 1000000000, must be at most 1024"),
        ("name=../../x", "name: got '../../x'; it may hold letters, digits"),
        ("name=..", "name: got '..'"),
        ("name=a\\b", "name: got 'a\\\\b'"),
        ("name=", "name: got ''"),
        ("train.updates=3\nseed=4", "a line break or control character; give each key with its own --set"),
        ("nosense", "--set nosense: expected table.key=value"),
        ("name.x=1", "--set name.x=1: name is not a table"),
    ],
)
def test_what_does_not_fit_is_told_with_its_path(tmp_path, change, message):
    with pytest.raises(InputError) as caught:
        read(tmp_path, TEXT, change)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_and_infinities_that_are_right(tmp_path):
    for name in ("multi30k-en-de", "v1.5", "my run", "Übung_2"):
        assert read(tmp_path, TEXT, f"name={name}").name == name
    assert read(tmp_path, TEXT, "train.explode=inf").train.explode == float("inf")
    assert read(tmp_path, TEXT, "seed=9223372036854775807").seed == 2**63 - 1


def test_a_run_needs_an_end(tmp_path):
    with pytest.raises(InputError, match="train.updates: a run needs an end: give updates, epochs or minutes"):
        read(tmp_path, TEXT.replace("updates = 10", ""))


def test_heads_that_do_not_divide_the_width(tmp_path):
    with pytest.raises(InputError, match="hidden_size 32 cannot be divided by 5 heads"):
        read(tmp_path, TEXT, "model.heads=5").model.make(300)


def test_a_missing_or_broken_file(tmp_path):
    with pytest.raises(InputError, match="no such recipe"):
        Recipe.read(tmp_path / "none.toml")
    with pytest.raises(InputError, match="not a readable TOML file"):
        read(tmp_path, "name = ")


def test_a_whole_spec_in_a_recipe(tmp_path):
    from regard import spec

    made = read(tmp_path).model.make(300)
    table = {"name": "x", "model": {"spec": spec.dump(made)}, "train": {"updates": 1}}
    recipe = read(tmp_path, toml.dumps(table))
    assert recipe.model.make(300) == made
    assert read(tmp_path, recipe.dumps()) == recipe
    with pytest.raises(InputError, match=r"vocabularies \(300, 300\) are not the tokenizers' \(400, 400\)"):
        recipe.model.make(400)
    with pytest.raises(InputError, match="model.spec: give a spec or a shape, not both"):
        read(tmp_path, toml.dumps(table), "model.heads=2")


def test_toml_round_trip():
    data = {
        "text": 'quote " back \\ tab \t new\nline ü 😀 \x7f', "float": 1e-9, "whole": 1.0, "big": 10**12, "true": True,
        "list": [1, [2.5, "x"], {"a b": [{"c": False}]}],
        "table": {"empty": {}, "in.ner": {"x": [], "inf": float("inf")}},
    }  # fmt: skip
    assert tomllib.loads(toml.dumps(data | {"left out": None})) == data
