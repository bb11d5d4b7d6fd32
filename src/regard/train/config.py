"""Recipes: one TOML file says everything about a training run.

    name = "multi30k-en-de"
    seed = 1
    [model]       shape = "encoder_decoder" and its numbers (`regard.shapes`), or a whole spec
    [tokenizer]   [data]   [train]   [optimizer]   [schedule]   [decode]

`Recipe.read` checks every key and value; what does not fit is told with the path of the field. Keys are changed from
outside with overrides such as "train.updates=100".
"""

from __future__ import annotations

import inspect
import os
import re
import tomllib
import typing
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from regard import shapes, spec
from regard.data.config import DataConfig
from regard.errors import InputError
from regard.ranges import at_least, check_numbers, positive
from regard.train import toml
from regard.train.optim import OptimizerConfig
from regard.train.schedule import ScheduleConfig
from regard.values import FieldError, convert, from_dict, to_dict

NAME = re.compile(r"\w([\w .+-]{0,98}[\w+-])?")  # of a folder in runs/, whatever the system
MOST_THREADS = 1024  # a system cannot make any number of them: torch then ends the process without a word
FILLED_IN = ("vocab_size", "source_vocab_size")  # known when the tokenizer is


@dataclass(frozen=True)
class ModelConfig:
    """The [model] table: `shape` with its arguments beside it, or a model `spec` as a table (vocabulary included).

    init: the scheme of initial values (`regard.nn.init`).
    """

    shape: Literal["encoder_decoder"] = "encoder_decoder"
    init: str = "xavier"
    spec: dict[str, Any] | None = None
    arguments: dict[str, Any] = field(default_factory=dict)

    def make(self, vocab_size: int, source_vocab_size: int | None = None) -> Any:
        """The spec for a vocabulary (and another one of the source; None: the same).

        Raises:
            InputError: sizes that do not go together, or a spec for another vocabulary.
        """
        apart = source_vocab_size is not None
        if apart and self.arguments.get("tied_embeddings"):
            raise InputError("recipe: model.tied_embeddings: one table needs one vocabulary: tokenizer.joint = true")
        # two vocabularies never share a table, even when they happen to be of one size
        arguments = self.arguments | ({"tied_embeddings": False} if apart else {})
        try:
            if self.spec is None:
                return shapes.encoder_decoder(vocab_size, source_vocab_size=source_vocab_size, **arguments)
            made = spec.parse(self.spec, "model.spec")
        except FieldError as error:
            raise InputError(f"recipe: {error}") from None
        if not isinstance(made, spec.EncoderDecoder):
            raise InputError(f"recipe: model.spec: training needs an EncoderDecoder, got {type(made).__name__}")
        sizes = made.encoder.embedding.vocab_size, made.decoder.embedding.vocab_size
        if sizes != (source_vocab_size or vocab_size, vocab_size):
            raise InputError(
                f"recipe: model.spec: its vocabularies {sizes} are not the tokenizers' "
                f"{(source_vocab_size or vocab_size, vocab_size)}; change vocab_size or the [tokenizer] table"
            )
        return made


@dataclass(frozen=True)
class TokenizerConfig:
    """The [tokenizer] table. joint: source and target share one vocabulary. folder: an existing tokenizer to use."""

    vocab_size: int = 8000
    joint: bool = True
    lowercase: bool = False
    folder: str | None = None

    def __post_init__(self) -> None:
        check_numbers(self)
        at_least(self, 1, "vocab_size")


@dataclass(frozen=True)
class TrainConfig:
    """The [train] table.

    updates, epochs, minutes: limits; the first that is reached ends the run, and one must be given. Minutes are
    training time with evaluations and saves, over all sessions of a run; a run limited by time is not reproducible bit
    for bit.
    batch_tokens: target tokens a micro-batch at most. accumulate: micro-batches an update. max_length: tokens a side;
    longer pairs are left out and counted.
    evaluate_every, save_every: updates; not given: each epoch, and after each evaluation. 0: never (but at the end).
    metric: what early stopping and "best" go by: "loss" (-log p a token), or "bleu" or "chrf" of `score_sentences`
    validation sentences translated greedily. patience: evaluations without a better one that are borne.
    average: the final model is the mean of this many checkpoints (0: none), the last or the best; ema: decay of a
    running average that is evaluated and becomes the final model.
    explode: the run stops when the loss exceeds this many times the first one.
    """

    updates: int | None = None
    epochs: float | None = None
    minutes: float | None = None
    batch_tokens: int = 4096
    accumulate: int = 1
    max_length: int = 256
    label_smoothing: float = 0.1
    smoothing_convention: Literal["uniform", "others"] = "uniform"
    clip: float = 1.0
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    log_every: int = 20
    evaluate_every: int | None = None
    save_every: int | None = None
    score_sentences: int = 0
    metric: Literal["loss", "bleu", "chrf"] = "loss"
    patience: int | None = None
    keep: int = 1
    average: int = 0
    average_of: Literal["last", "best"] = "last"
    ema: float | None = None
    explode: float = 3.0
    tensorboard: bool = True
    threads: int | None = None
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.updates is None and self.epochs is None and self.minutes is None:
            raise FieldError("a run needs an end: give updates, epochs or minutes", "updates")
        check_numbers(self, infinite=("explode",))
        at_least(self, 1, "updates", "batch_tokens", "accumulate", "max_length", "log_every", "keep", "threads")
        at_least(self, 0, "evaluate_every", "save_every", "score_sentences", "patience", "average", "clip")
        positive(self, "epochs", "minutes", "explode")
        if self.threads is not None and self.threads > MOST_THREADS:
            raise FieldError(f"got {self.threads}, must be at most {MOST_THREADS}", "threads")
        if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", self.device):
            raise FieldError(f"got {self.device!r}, allowed: 'auto', 'cpu', 'cuda', 'cuda:0' ..., 'mps'", "device")
        if not 0 <= self.label_smoothing < 1:
            raise FieldError(f"got {self.label_smoothing}, must lie in [0, 1)", "label_smoothing")
        if self.ema is not None and not 0 < self.ema < 1:
            raise FieldError(f"got {self.ema}, must lie between 0 and 1", "ema")
        if self.ema is not None and self.average:
            raise FieldError("choose one of average and ema", "ema")
        if self.metric != "loss" and not self.score_sentences:
            raise FieldError(f'"{self.metric}" needs score_sentences, the number of sentences to translate', "metric")


@dataclass(frozen=True)
class DecodeConfig:
    """The [decode] table: how the final evaluation translates. batch_tokens: source tokens a batch."""

    beams: int = 5
    length_penalty: float = 1.0
    max_length: int | None = None
    batch_tokens: int = 4096

    def __post_init__(self) -> None:
        check_numbers(self)
        at_least(self, 1, "beams", "max_length", "batch_tokens")


@dataclass(frozen=True)
class Recipe:
    """A whole training run. name: of its folder in runs/. seed: of initial values, the order of the data, dropout."""

    name: str
    train: TrainConfig
    seed: int = 1
    model: ModelConfig = ModelConfig()
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    data: DataConfig = field(default_factory=DataConfig)
    optimizer: OptimizerConfig = OptimizerConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    decode: DecodeConfig = field(default_factory=DecodeConfig)

    def __post_init__(self) -> None:
        check_numbers(self)
        at_least(self, 0, "seed")
        if not NAME.fullmatch(self.name):
            problem = "may hold letters, digits, spaces and . _ + -, at most 100, since a folder is called like it"
            raise FieldError(f"got {self.name!r}; it {problem}", "name")

    @staticmethod
    def parse(data: dict[str, Any]) -> Recipe:
        """The recipe of nested dictionaries, as TOML gives them.

        Raises:
            FieldError: with the path of the field.
        """
        data = dict(data)
        if "model" in data:
            data["model"] = _split_model(data["model"])
        return from_dict(Recipe, data)

    @staticmethod
    def read(path: str | os.PathLike[str], overrides: Iterable[str] = ()) -> Recipe:
        """Reads a TOML file and applies overrides ("table.key=value").

        Raises:
            InputError: no such file, not TOML, an unknown key, a value that does not fit; one line with the place.
        """
        path = Path(path)
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        except FileNotFoundError:
            raise InputError(f"{path}: no such recipe; give the path of a TOML file") from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InputError(f"{path}: not a readable TOML file ({error})") from None
        for text in overrides:
            override(data, text)
        try:
            return Recipe.parse(data)
        except FieldError as error:
            raise InputError(f"{path}: {error}") from None

    def dumps(self) -> str:
        """The recipe as TOML, every default written out; `read` of it gives an equal recipe."""
        data = to_dict(self)
        model = data["model"]
        data["model"] = {k: v for k, v in model.items() if k != "arguments"} | model["arguments"]
        if model["spec"] is not None:
            del data["model"]["shape"]
        return toml.dumps(data)


def override(data: dict[str, Any], text: str) -> None:
    """Puts one "table.key=value" into nested dictionaries. The value is read as TOML, or else as a text.

    Raises:
        InputError: no "=", a line break, or a path through something that is not a table.
    """
    path, equals, raw = text.partition("=")
    keys = path.strip().split(".")
    if not equals or not all(keys):
        raise InputError(f"--set {text}: expected table.key=value, for example train.updates=100")
    if any(ord(character) < 32 and character != "\t" for character in text):
        raise InputError(f"--set {text!r}: a line break or control character; give each key with its own --set")
    try:
        value = tomllib.loads(f"value = {raw}")["value"]
    except tomllib.TOMLDecodeError:
        value = raw.strip()
    for key in keys[:-1]:
        data = data.setdefault(key, {})
        if not isinstance(data, dict):
            raise InputError(f"--set {text}: {key} is not a table of the recipe")
    data[keys[-1]] = value


def changes(old: Recipe, new: Recipe) -> list[str]:
    """The paths of the fields in which two recipes differ, "train.updates" and so on."""
    found: list[str] = []

    def compare(a: Any, b: Any, path: str) -> None:
        if isinstance(a, dict) and isinstance(b, dict):
            for key in [*a, *(k for k in b if k not in a)]:
                compare(a.get(key), b.get(key), f"{path}.{key}".lstrip("."))
        elif a != b:
            found.append(path.replace("model.arguments.", "model."))

    compare(to_dict(old), to_dict(new), "")
    return found


def _split_model(table: Any) -> Any:
    """{"shape": ..., "heads": 4} -> {"shape": ..., "arguments": {"heads": 4}}, the arguments checked."""
    if not isinstance(table, dict):
        return table
    own = {k: v for k, v in table.items() if k in ("shape", "init", "spec")}
    rest = {k: v for k, v in table.items() if k not in own}
    if "spec" in own:
        if "shape" in own or rest:
            raise FieldError(f"give a spec or a shape, not both ({', '.join(['shape', *rest])})", "model.spec")
        return own
    if own.get("shape", "encoder_decoder") != "encoder_decoder":
        return own  # refused by the field's type, which names what is allowed
    shape = shapes.encoder_decoder
    hints = typing.get_type_hints(shape)
    allowed = [name for name in inspect.signature(shape).parameters if name not in FILLED_IN]
    for key in rest:
        if key not in allowed:
            more = "; it follows from the tokenizer" if key in FILLED_IN else ""
            known = ", ".join(["shape", "init", "spec", *allowed])
            raise FieldError(f"unknown key{more}; allowed here: {known}", f"model.{key}")
    return own | {"arguments": {k: convert(hints[k], v, f"model.{k}") for k, v in rest.items()}}
