"""A French-English phrasebook, generated from a grammar of our own: the default corpus, which needs no download.

Every French sentence has exactly one English translation, so a perfect score is possible. What French leaves open is
fixed once: the passé composé is the simple past; the imparfait of an action is `was eating`, of a state the simple
past; the present of an action is `is eating`, unless it is a habit (souvent, tous les jours, jamais), of a state
`loves`; `tu` and `vous` are `you`, `on` is `we`; `son` belongs to the subject; `j'aime les chats` is `I love cats`,
while `je vois les chats` is `I see the cats`; `le` and `la` as pronouns are `him` and `her`; `lui` and `l'aime` are
not said.

The three parts differ in *combinations*. Each pair (verb, object noun) and (noun, adjective) of lemmas belongs to one
part, by a fixed hash: about 90 % to train, 5 % to valid, 5 % to test. A sentence of valid or test has at least one pair
of its part; no sentence of train has any of these. So every test sentence says something never said in training,
although each of its words is in the training part, and every verb, noun and adjective keeps most of its partners there.
`Je t'aime.` and `Je t'aime` are always in the training part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b

from regard.data.phrasebook import lexicon
from regard.data.phrasebook.lexicon import NOUNS, PHRASES, VERBS, adjectives_of, objects_of
from regard.data.phrasebook.phrases import Combination, Draw
from regard.data.phrasebook.sentences import CONSTRUCTIONS, sentence
from regard.errors import InputError

__all__ = ["Phrasebook", "combinations", "generate", "held_out", "lexicon_size", "part_of"]

Pair = tuple[str, str]
MAX_WORDS = 12
SMALLEST, LARGEST = 1_000, 400_000
_SHARE = 20  # one combination in 20 goes to valid, one in 20 to test
_SALT = "177"  # chosen so that no word loses more than a third of its partners (a test holds this)


@dataclass(frozen=True, slots=True)
class Phrasebook:
    """The corpus: (French, English) pairs, all distinct, in three parts."""

    train: tuple[Pair, ...]
    valid: tuple[Pair, ...]
    test: tuple[Pair, ...]


@cache
def part_of(combination: Combination) -> str:
    """The part ("train", "valid" or "test") that a combination belongs to, whatever the seed."""
    digest = blake2b(":".join((_SALT, *combination)).encode(), digest_size=4).digest()
    return {0: "test", 1: "valid"}.get(int.from_bytes(digest, "big") % _SHARE, "train")


def combinations() -> Iterator[Combination]:
    """All that the grammar can say, in French lemmas: ("object", verb, noun), ("adjective", noun, adjective)."""
    for verb in VERBS:
        if verb.french != "chanter":  # only said without object
            yield from (("object", verb.french, noun.french) for noun in objects_of(verb))
    for noun in NOUNS:
        yield from (("adjective", noun.french, adjective.french) for adjective in adjectives_of(noun))


def held_out() -> dict[str, tuple[Combination, ...]]:
    """The combinations kept out of the training part: {"valid": ..., "test": ...}, in the order of the lexicon."""
    return {part: tuple(c for c in combinations() if part_of(c) == part) for part in ("valid", "test")}


def lexicon_size() -> dict[str, int]:
    """How many entries the lexicon has of each kind (lemmas, not forms)."""
    tables = {
        "nouns": NOUNS,
        "verbs": VERBS,
        "adjectives": {adjective.french for adjective in (*lexicon.ADJECTIVES, *lexicon.MOODS)},
        "names": lexicon.NAMES,
        "numbers": lexicon.NUMBERS,
        "idioms": lexicon.IDIOMS,
        "professions": lexicon.PROFESSIONS,
        "towns": lexicon.TOWNS,
        "phrases": PHRASES,
        "constructions": CONSTRUCTIONS,
    }
    return {name: len(table) for name, table in tables.items()}


def _part(found: list[Combination]) -> str:
    """The part of a sentence, or "" for one that mixes valid and test combinations (it is dropped)."""
    parts = {part_of(combination) for combination in found} - {"train"}
    if not parts:
        return "train"
    return parts.pop() if len(parts) == 1 else ""


def _words(sentence: str) -> int:
    return sentence.rstrip(" ?!").count(" ") + 1


def _phrases() -> Iterator[Pair]:
    """The fixed phrases, each with and without its final mark."""
    for french, english in PHRASES:
        yield french, english
        yield french.rstrip(" .?!"), english.rstrip(".?!")


def _covered(pairs: list[Pair], train: dict[str, str]) -> list[Pair]:
    """The pairs whose words, in both languages, all occur in the training part."""
    french = {word for sentence in train for word in sentence.split()}
    english = {word for sentence in train.values() for word in sentence.split()}
    return [(f, e) for f, e in pairs if french.issuperset(f.split()) and english.issuperset(e.split())]


def generate(seed: int = 0, size: int = 40_000) -> Phrasebook:
    """The phrasebook: `size` distinct pairs in all, of which size // 80 are valid and size // 40 test (500 and 1000).

    The same seed and size give the same corpus on every machine and Python version. Raises InputError when size is
    outside 1000 .. 400000.
    """
    if not SMALLEST <= size <= LARGEST:
        raise InputError(f"phrasebook size {size}: give a number of pairs from {SMALLEST} to {LARGEST}")
    draw = Draw(seed)
    wanted = {"valid": size // 80, "test": size // 40}
    wanted["train"] = size - wanted["valid"] - wanted["test"]
    parts: dict[str, dict[str, str]] = {"train": dict(_phrases()), "valid": {}, "test": {}}
    room = {"train": wanted["train"], "valid": 2 * wanted["valid"] + 50, "test": 2 * wanted["test"] + 50}
    while any(len(parts[name]) < room[name] for name in room):
        french, english = sentence(draw)
        part = _part(draw.combinations)
        if not part or len(parts[part]) >= room[part] or _words(french) > MAX_WORDS or _words(english) > MAX_WORDS:
            continue
        known = parts[part].setdefault(french, english)
        if known != english:
            raise AssertionError(f"two translations: {french!r}: {known!r}, {english!r}")
    chosen: dict[str, tuple[Pair, ...]] = {}
    for name in ("valid", "test"):
        chosen[name] = tuple(_covered(list(parts[name].items()), parts["train"])[: wanted[name]])
    train = list(parts["train"].items())
    draw.shuffle(train)
    return Phrasebook(tuple(train), chosen["valid"], chosen["test"])
