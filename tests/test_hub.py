"""Folders of our own layout: what is damaged is told in one line, and nothing is half written."""

from __future__ import annotations

import json

import pytest
import torch

import regard
from regard import shapes
from regard.errors import InputError
from regard.hub import CONFIG, WEIGHTS, read_tensors, write_tensors
from regard.tokenizer import Tokenizer


@pytest.fixture
def saved(tmp_path):
    model = regard.build(shapes.encoder_decoder(50, 32, 2, 4, 64))
    regard.save(model, tmp_path)
    return model, tmp_path


def test_a_tied_table_is_stored_once_and_shared_after_loading(saved):
    model, folder = saved
    names = read_tensors(folder / WEIGHTS).keys()
    assert sum("tokens.weight" in n for n in names) == 1
    again = regard.load(folder)
    assert again.encoder.embedding.weight is again.decoder.embedding.weight
    assert not again.training and again.tokenizer is None
    assert torch.equal(again.decoder.embedding.weight, model.decoder.embedding.weight)


def test_dtype_and_default(saved):
    assert regard.load(saved[1]).dtype == torch.float32
    assert regard.load(saved[1], dtype=torch.bfloat16).dtype == torch.bfloat16


def test_fault_W3_missing_unexpected_and_misshapen_tensors_are_listed(saved):
    tensors = read_tensors(saved[1] / WEIGHTS)
    first = sorted(tensors)[0]
    tensors["stranger"] = tensors.pop(first)
    last = sorted(tensors)[-2]
    tensors[last] = torch.zeros(3)
    write_tensors(saved[1] / WEIGHTS, tensors)
    with pytest.raises(InputError, match=f"missing: {first}; unexpected: stranger; wrong shape: {last} is .3."):
        regard.load(saved[1])


@pytest.mark.parametrize("keep", [0, 5, 100, -10])
def test_a_truncated_file_is_refused(saved, keep):
    path = saved[1] / WEIGHTS
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match="not a whole safetensors file"):
        regard.load(saved[1])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", 'no "spec"'),
        (json.dumps({"spec": {"kind": "Encoder"}}), r"spec\.embedding: this key is required"),
    ],
)
def test_a_damaged_config_is_refused(saved, content, message):
    (saved[1] / CONFIG).write_text(content)
    with pytest.raises(InputError, match=message):
        regard.load(saved[1])


def test_fault_D13_a_vocabulary_larger_than_the_model_is_told_with_both_numbers(saved):
    Tokenizer.train(["a b c"], 300).save(saved[1])
    with pytest.raises(InputError, match=r"the tokenizer has \d+ tokens, the decoder only 50"):
        regard.load(saved[1])


def test_fault_W1_a_tied_head_owns_no_tensor_and_follows_the_table(tmp_path):
    model = regard.build(shapes.decoder(50, 32, 1, 4))
    regard.save(model, tmp_path)
    again = regard.load(tmp_path)
    ids = torch.tensor([[3, 4]])
    before = again(ids)
    with torch.no_grad():
        again.embedding.weight[7] += 1.0
    assert not torch.equal(again(ids)[..., 7], before[..., 7]) and torch.equal(again(ids)[..., 8], before[..., 8])


def test_missing_folders_and_files(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        regard.load(tmp_path / "nowhere")
    with pytest.raises(InputError, match="no config.json"):
        regard.load(tmp_path)
