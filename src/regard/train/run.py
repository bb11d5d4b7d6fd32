"""A training run from its recipe to a model folder: recipe -> data -> tokenizer -> spec -> build -> loop -> scores.

RUN/
  recipe.toml          the resolved recipe: every default and override written out
  config.json  model.safetensors  tokenizer.json      the finished model (`regard.load(RUN)`)
  results.json         what it reached
  log.jsonl  loss.png  tensorboard/
  checkpoints/step-N/  everything that --resume needs
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from regard import data, hub
from regard.data.batches import BucketedBatches
from regard.errors import InputError
from regard.files import write_text
from regard.nn import build, set_generator
from regard.spec import dump
from regard.tokenizer import Tokenizer
from regard.train import averaging, checkpoint
from regard.train.config import DecodeConfig, Recipe, changes
from regard.train.log import draw_loss, read
from regard.train.loop import Trainer
from regard.train.objectives import Seq2Seq
from regard.train.optim import make_optimizer
from regard.train.progress import Display, clock

# What may differ between a run and its continuation: limits, and what does not touch the mathematics.
FREE = {
    "train.updates", "train.epochs", "train.minutes", "train.patience", "train.log_every", "train.keep",
    "train.average", "train.average_of", "train.tensorboard", "train.threads", "decode.beams", "decode.length_penalty",
    "decode.max_length", "decode.batch_tokens",
}  # fmt: skip


@dataclass(frozen=True)
class Result:
    """What a run gave. scores: {name of a test set: what `regard.evaluate.translation_scores` gives}."""

    folder: Path
    reason: str
    updates: int
    seconds: float
    nll: float
    scores: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Prepared:
    """The data of a run as token ids."""

    train: list[tuple[list[int], list[int]]]
    valid: list[tuple[list[int], list[int]]]
    tokenizer: Tokenizer
    source_tokenizer: Tokenizer

    def identity(self) -> dict[str, Any]:
        """What must be the same when a run goes on."""
        digest = hashlib.sha256()
        for source, target in self.train:
            digest.update(f"{source}{target}".encode())
        return {"tokenizer": self.tokenizer.fingerprint(), "examples": len(self.train), "sha256": digest.hexdigest()}


def train(
    recipe_path: str | os.PathLike[str],
    overrides: Iterable[str] = (),
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    quiet: bool = False,
) -> Result:
    """Trains the model of a recipe and scores it.

    Args:
        overrides: "table.key=value" each.
        out: the run's folder; None: runs/NAME.
        resume: go on from the last complete checkpoint in `out`; on a CPU the result is that of the uninterrupted run,
            bit for bit, unless the run is limited by minutes.

    Raises:
        InputError: a bad recipe, bad data, a folder that holds another run.
        FailureError: the loss diverged, or the disk is full; the last good checkpoint stays.
    """
    recipe = Recipe.read(recipe_path, overrides)
    folder = Path(out) if out is not None else Path("runs") / recipe.name
    display = Display(quiet)
    if recipe.train.threads is not None:
        torch.set_num_threads(recipe.train.threads)
    check_folder(folder, recipe, resume)
    if recipe.model.spec is None:  # impossible sizes are told before any work
        recipe.model.make(recipe.tokenizer.vocab_size, None if recipe.tokenizer.joint else recipe.tokenizer.vocab_size)
    corpus = data.load(recipe.data)
    write_text(folder / "recipe.toml", recipe.dumps())
    display.say(str(corpus.report))
    prepared = prepare(recipe, corpus, folder, display)
    trainer = make_trainer(recipe, prepared, corpus, folder, display)
    saved = checkpoint.latest(trainer.checkpoints, display.say) if resume else None
    if saved is not None:
        trainer.load(saved)
        display.say(f"going on from {saved.path}")
    elif resume:
        display.say(f"{folder} has no complete checkpoint: starting from the beginning")
    reason = trainer.run(resumed=saved is not None)
    return finish(recipe, trainer, corpus, reason)


def check_folder(folder: Path, recipe: Recipe, resume: bool) -> None:
    """Refuses a folder with another run.

    Raises:
        InputError: the folder holds a run and `resume` is off, or that run has another recipe.
    """
    file = folder / "recipe.toml"
    if file.exists():
        if not resume:
            raise InputError(f"{folder} holds a run already: add --resume to go on with it, or choose another --out")
        different = [path for path in changes(Recipe.read(file), recipe) if path not in FREE]
        if different:
            names = ", ".join(different)
            raise InputError(f"{file} differs from the recipe in {names}: a run goes on with its own values")


def prepare(recipe: Recipe, corpus: Any, folder: Path, display: Display) -> Prepared:
    """Tokenizers (trained, or those the folder already has) and token ids; counts the pairs that are too long."""
    target, source = tokenizers(recipe, corpus, folder)
    limit = recipe.train.max_length

    def encode(pairs: Sequence[Any], name: str) -> list[tuple[list[int], list[int]]]:
        sources = source.encode_batch([p.source for p in pairs])
        targets = target.encode_batch([p.target for p in pairs])
        whole = list(zip(sources, targets, strict=True))
        kept = [(s, t) for s, t in whole if s and t and len(s) <= limit and len(t) < limit]
        if len(kept) < len(whole):
            left_out = len(whole) - len(kept)
            why = f"empty or over train.max_length = {limit} tokens"
            display.say(f"{name}: {left_out} of {len(whole)} pairs left out: {why}")
        return kept

    prepared = Prepared(encode(corpus.train, "train"), encode(corpus.valid, "valid"), target, source)
    if not prepared.train:
        raise InputError("no training pair is left: raise train.max_length, or look at the [data] table")
    return prepared


def tokenizers(recipe: Recipe, corpus: Any, folder: Path) -> tuple[Tokenizer, Tokenizer]:
    """(target's, source's), one object when joint. Trained on the training pairs unless they exist."""
    config = recipe.tokenizer
    given = Path(config.folder) if config.folder is not None else folder
    if config.folder is not None or (folder / hub.TOKENIZER).is_file():
        target = Tokenizer.load(given, hub.TOKENIZER)
        return target, target if config.joint else Tokenizer.load(given, hub.SOURCE_TOKENIZER)
    sources, targets = [p.source for p in corpus.train], [p.target for p in corpus.train]
    if config.joint:
        target = source = Tokenizer.train([*sources, *targets], config.vocab_size, config.lowercase)
    else:
        target = Tokenizer.train(targets, config.vocab_size, config.lowercase)
        source = Tokenizer.train(sources, config.vocab_size, config.lowercase)
        source.save(folder, hub.SOURCE_TOKENIZER)
    target.save(folder, hub.TOKENIZER)  # last: where it exists, the other one does
    return target, source


def make_trainer(recipe: Recipe, prepared: Prepared, corpus: Any, folder: Path, display: Display) -> Trainer:
    """Builds the model and everything around it, from the recipe's seed."""
    config = recipe.train
    tokenizer, source = prepared.tokenizer, prepared.source_tokenizer
    other = None if recipe.tokenizer.joint else source.vocab_size
    made = recipe.model.make(tokenizer.vocab_size, other)
    device = config.device if config.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise InputError(f'train.device: "{device}" is not on this machine; set train.device = "cpu"')
    model = build(made, init=recipe.model.init, generator=torch.Generator().manual_seed(recipe.seed)).to(device)
    model.tokenizer, model.source_tokenizer = tokenizer, source
    dropout = torch.Generator(device).manual_seed(recipe.seed + 1)
    set_generator(model, dropout)

    def batches(examples: list[tuple[list[int], list[int]]]) -> BucketedBatches:
        pad, start, end = tokenizer.pad_id, tokenizer.start_id, tokenizer.end_id
        return BucketedBatches(examples, config.batch_tokens, recipe.seed, pad_id=pad, start_id=start, end_id=end)

    def extras(target: Path) -> None:
        write_text(target / hub.CONFIG, json.dumps({"regard": hub.LAYOUT, "spec": dump(made)}, indent=1) + "\n")
        tokenizer.save(target, hub.TOKENIZER)
        if source is not tokenizer:
            source.save(target, hub.SOURCE_TOKENIZER)

    def rescore(model: Any) -> dict[str, float]:
        pairs = list(corpus.valid)[: config.score_sentences]
        scores = translate_and_score(model, pairs, DecodeConfig(1, batch_tokens=recipe.decode.batch_tokens))
        return {name: scores[name] for name in ("bleu", "chrf", "exact")}

    valid = batches(prepared.valid) if prepared.valid else None
    parameters = sum(p.numel() for p in model.parameters())
    shown = f"{len(prepared.train):,} training pairs, vocabulary {tokenizer.vocab_size:,}"
    display.say(f"{parameters:,} parameters, {shown}")
    return Trainer(
        model,
        Seq2Seq(config.label_smoothing, config.smoothing_convention),
        make_optimizer(model, recipe.optimizer),
        batches(prepared.train),
        folder,
        config,
        recipe.schedule,
        recipe.optimizer.lr,
        valid=valid.once if valid is not None else None,
        rescore=rescore if config.score_sentences and corpus.valid else None,
        generators=checkpoint.Generators(dropout=dropout),
        extras=extras,
        hidden_size=made.decoder.stack.hidden_size,
        display=display,
        identity=prepared.identity(),
    )


def finish(recipe: Recipe, trainer: Trainer, corpus: Any, reason: str) -> Result:
    """Takes the final weights, saves the model, scores it on the test sets and draws the loss curve."""
    from regard.evaluate import describe

    model, folder, display = trainer.model, trainer.folder, trainer.display
    final_weights(trainer, reason)
    model.eval()
    hub.save(model, folder)
    draw_loss(folder / "log.jsonl", folder / "loss.png")
    nll = trainer.measure(trainer.valid())["nll"] if trainer.valid is not None else float("nan")
    # only these kinds of data say what language they are in
    language = recipe.data.target if recipe.data.kind in ("phrasebook", "files") else None
    scores = {
        name: translate_and_score(model, pairs, recipe.decode, language) for name, pairs in corpus.test.items() if pairs
    }
    state = trainer.state
    result = Result(folder, reason, state.update, state.seconds, nll, scores)
    figures = {"reason": reason, "updates": state.update, "seconds": state.seconds, "tokens": state.tokens}
    figures |= {"nll": nll, "scores": scores, "skipped": state.skipped}
    write_text(folder / "results.json", json.dumps(figures, indent=1, ensure_ascii=False) + "\n")
    display.say(f"{state.update} updates in {clock(state.seconds)} (stopped by {reason}); validation nll {nll:.4f}")
    for name, values in scores.items():
        display.say(f"{name}:\n{describe(values)}")
    return result


def final_weights(trainer: Trainer, reason: str) -> None:
    """Puts the weights that the run ends with into the model: an average, the EMA, the best, or simply the last."""
    config, model = trainer.config, trainer.model
    found = checkpoint.complete(trainer.checkpoints)
    if config.average:
        chosen = found[-config.average :] if config.average_of == "last" else checkpoint.best(found, config.average)
        checkpoint.fill(model, averaging.average([c.path / hub.WEIGHTS for c in chosen]))
        trainer.display.say(f"averaged {len(chosen)} checkpoints: steps {', '.join(str(c.step) for c in chosen)}")
    elif trainer.ema is not None:
        checkpoint.fill(model, trainer.ema.shadow)
    elif config.patience is not None and (chosen := checkpoint.best(found)):
        hub.load_tensors(model, chosen[0].path / hub.WEIGHTS)
        trainer.display.say(f"took the best checkpoint, step {chosen[0].step}")


def translate_and_score(
    model: Any, pairs: Sequence[Any], decode: DecodeConfig, language: str | None = None
) -> dict[str, Any]:
    """The scores of generated text against the pairs' targets (`regard.evaluate.translation_scores`)."""
    from regard.evaluate import translation_scores
    from regard.generate import translate

    found = translate(
        model,
        [p.source for p in pairs],
        beams=decode.beams,
        length_penalty=decode.length_penalty,
        max_length=decode.max_length,
        batch_tokens=decode.batch_tokens,
    )
    texts = [hypotheses[0].text for hypotheses in found]
    return translation_scores(texts, [p.target for p in pairs], language=language)


def history(folder: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The lines of a run's log."""
    return read(Path(folder) / "log.jsonl")
