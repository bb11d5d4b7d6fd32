"""The [data] table of a recipe."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from regard.ranges import at_least, check_numbers
from regard.values import FieldError


@dataclass(frozen=True)
class DataConfig:
    """Where the sentence pairs come from, and which are left out.

    kind:
        "phrasebook"  the package's own French-English pairs (or English-French): `size` of them, made from `seed`
        "files"       two aligned text files a split, plain or .gz; {lang} in a path becomes `source` or `target`
        "tsv"         one file a split, columns apart by tabs; `source` and `target` are column numbers from 1, or names
                      that stand in the first line
        "jsonl"       one JSON object a line; `source` and `target` are keys ("translation.fr" looks inside)
        "hub"         a data set by its hub name in `root`, read by the `datasets` library; train, valid and test are
                      splits, `source` and `target` columns as for jsonl
    root: folder before the paths. In root and paths ${NAME} is an environment variable, ${NAME:-other} has a default.
    train, valid: paths (or splits); test: a name and a path for each test set.
    max_characters: pairs with a longer side are left out; max_ratio: so are those whose sides differ more in length
    (in characters, + 10 so that short ones may). unique: repeated pairs once. All of it is counted and told.
    """

    kind: Literal["phrasebook", "files", "tsv", "jsonl", "hub"] = "phrasebook"
    root: str = ""
    source: str = "fr"
    target: str = "en"
    train: str = ""
    valid: str = ""
    test: dict[str, str] = field(default_factory=dict)
    max_characters: int = 2000
    max_ratio: float | None = None
    unique: bool = False
    lowercase: bool = False
    size: int = 40_000
    seed: int = 0

    def __post_init__(self) -> None:
        check_numbers(self)
        at_least(self, 0, "seed")
        if self.kind != "phrasebook" and not self.train:
            raise FieldError(f'kind = "{self.kind}" needs the path of the training pairs', "train")
        if self.kind == "files":
            for name, path in (("train", self.train), ("valid", self.valid), *self.test.items()):
                if path and "{lang}" not in path:
                    raise FieldError(f"got {path!r}; put {{lang}} where {self.source} or {self.target} stands", name)
        if self.kind == "phrasebook" and {self.source, self.target} != {"fr", "en"}:
            raise FieldError(
                f"got {self.source} to {self.target}; the phrasebook has fr and en, in both directions", "source"
            )
        if self.kind == "tsv":
            for name in ("source", "target"):
                if getattr(self, name) == "0":
                    raise FieldError("got 0; columns count from 1", name)
        at_least(self, 1, "max_characters", "max_ratio")
