"""Parameter groups and optimizers."""

import pytest
import torch
from torch import nn
from toys import make_model

from regard.train.optim import (
    OptimizerConfig,
    check_groups,
    load_optimizer,
    make_optimizer,
    optimizer_tensors,
    parameter_groups,
)
from regard.values import FieldError


def test_fault_T13():
    """Matrices decay, norms and biases do not; each parameter is in one group, and a tied weight comes once."""
    model = make_model()
    decay, plain = parameter_groups(model, 0.1)
    assert decay["weight_decay"] == 0.1
    assert plain["weight_decay"] == 0.0
    assert {p.ndim for p in decay["params"]} == {2}
    assert {p.ndim for p in plain["params"]} == {1}
    assert any("norm" in n for n in plain["names"])
    assert any(n.endswith("bias") for n in plain["names"])
    everything = [id(p) for p in [*decay["params"], *plain["params"]]]
    assert sorted(everything) == sorted(id(p) for p in model.parameters())
    table = model.decoder.embedding.weight
    assert model.encoder.embedding.weight is table
    assert everything.count(id(table)) == 1


def test_groups_that_miss_or_repeat_a_parameter_are_refused():
    model = nn.Linear(2, 3)
    with pytest.raises(ValueError, match=r"in no group: \['bias'\]"):
        check_groups(model, [{"params": [model.weight]}])
    with pytest.raises(ValueError, match=r"more than one: \['weight'\]"):
        check_groups(model, [{"params": [model.weight, model.bias]}, {"params": [model.weight]}])


def test_decoupled_decay_acts_on_matrices_only():
    """With a zero gradient AdamW multiplies a matrix by 1 - lr * decay and leaves a bias alone."""
    model = nn.Linear(2, 3)
    weight, bias = model.weight.detach().clone(), model.bias.detach().clone()
    optimizer = make_optimizer(model, OptimizerConfig("adamw", lr=0.1, weight_decay=0.5))
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    torch.testing.assert_close(model.weight.detach(), weight * 0.95)
    assert torch.equal(model.bias.detach(), bias)


def test_adam_is_the_papers_formula():
    """Three updates by hand, with bias correction (arXiv:1412.6980, algorithm 1), in float64."""
    model = nn.Linear(1, 1, bias=False).double()
    optimizer = make_optimizer(model, OptimizerConfig("adam", lr=0.01, betas=(0.9, 0.98), eps=1e-9))
    value, m, v = model.weight.item(), 0.0, 0.0
    for t, gradient in enumerate((0.5, -2.0, 1.0), 1):
        model.weight.grad = torch.full_like(model.weight, gradient)
        optimizer.step()
        m, v = 0.9 * m + 0.1 * gradient, 0.98 * v + 0.02 * gradient**2
        value -= 0.01 * (m / (1 - 0.9**t)) / ((v / (1 - 0.98**t)) ** 0.5 + 1e-9)
    assert model.weight.item() == pytest.approx(value, rel=1e-12)


def test_state_goes_out_and_in():
    models = [nn.Linear(2, 3), nn.Linear(2, 3)]
    models[1].load_state_dict(models[0].state_dict())
    first, second = (make_optimizer(m, OptimizerConfig()) for m in models)

    def step(model, optimizer, value):
        for p in model.parameters():
            p.grad = torch.full_like(p, value)
        optimizer.step()

    step(models[0], first, 1.0)
    models[1].load_state_dict(models[0].state_dict())
    saved = {k: v.clone() for k, v in optimizer_tensors(first).items()}
    assert set(saved) == {f"{p}/{k}" for p in ("weight", "bias") for k in ("step", "exp_avg", "exp_avg_sq")}
    load_optimizer(second, saved)
    step(models[0], first, -0.3)
    step(models[1], second, -0.3)
    assert torch.equal(models[0].weight, models[1].weight)
    with pytest.raises(ValueError, match="no parameter 'other'"):
        load_optimizer(second, {"other/step": torch.zeros(())})


def test_bad_values_name_their_field():
    with pytest.raises(FieldError, match=r"betas\[1\]: got 1.0"):
        OptimizerConfig(betas=(0.9, 1.0))
    with pytest.raises(FieldError, match="lr: got 0"):
        OptimizerConfig(lr=0)
