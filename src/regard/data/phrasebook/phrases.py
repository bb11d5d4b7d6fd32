"""Noun phrases in both languages at once: determiners, adjectives, possession; and the dice that choose them."""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Generic, NamedTuple, TypeVar

from regard.data.phrasebook import english, french
from regard.data.phrasebook.lexicon import NAMES, NOUNS, NUMBERS, Adjective, Noun, Verb, adjectives_of

__all__ = ["Draw", "NounPhrase", "person_subject", "possessive", "pronoun_subject", "subject", "thing"]

T = TypeVar("T")
Combination = tuple[str, str, str]
"""("object", verb, noun) or ("adjective", noun, adjective), French lemmas: the unit of what is held out."""


class Weighted(NamedTuple, Generic[T]):
    """Choices with cumulative weights, made once."""

    values: tuple[T, ...]
    cumulative: tuple[float, ...]

    @staticmethod
    def of(weights: Mapping[T, float]) -> Weighted[T]:
        """From {choice: weight}; weights are positive."""
        return Weighted(tuple(weights), tuple(accumulate(weights.values())))


class Draw:
    """The dice of one corpus. Only `random()` of the generator is used: the one method Python keeps stable for ever."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed).random
        self.combinations: list[Combination] = []

    def chance(self, share: float) -> bool:
        """True with this probability."""
        return self._random() < share

    def pick(self, choices: Sequence[T]) -> T:
        """One of the choices, all equally likely."""
        return choices[int(self._random() * len(choices))]

    def weighted(self, choices: Weighted[T]) -> T:
        """One of the choices, by weight."""
        values, cumulative = choices
        return values[bisect(cumulative, self._random() * cumulative[-1], 0, len(values) - 1)]

    def shuffle(self, items: list[T]) -> None:
        """Fisher and Yates, in place."""
        for i in range(len(items) - 1, 0, -1):
            j = int(self._random() * (i + 1))
            items[i], items[j] = items[j], items[i]


class NounPhrase(NamedTuple):
    """A noun phrase or pronoun. person: 0 je .. 5 ils, for French agreement; english_person the same for English.

    owner: what `son` means when this is the subject ("his", "her"), or "" where nobody could tell.
    """

    french: str
    english: str
    person: int = 2
    english_person: int = 2
    feminine: bool = False
    plural: bool = False
    owner: str = ""
    pronoun: bool = False


PRONOUNS: tuple[NounPhrase, ...] = tuple(
    NounPhrase(fr, en, person, english_person, feminine, plural, owner, True)
    for fr, en, person, english_person, genders, plural, owner in (
        ("je", "I", 0, 0, (False, True), False, ""), ("tu", "you", 1, 1, (False, True), False, ""),
        ("il", "he", 2, 2, (False, False), False, "his"), ("elle", "she", 2, 2, (True, True), False, "her"),
        ("on", "we", 2, 3, (False,), False, ""), ("nous", "we", 3, 3, (False, True), True, ""),
        ("vous", "you", 4, 4, (False, True), True, ""), ("vous", "you", 4, 4, (False,), False, ""),
        ("ils", "they", 5, 5, (False,), True, ""), ("elles", "they", 5, 5, (True,), True, ""),
    )
    for feminine in genders
)  # fmt: skip

_POSSESSIVES = (
    (("mon", "ma", "mes"), "my"), (("ton", "ta", "tes"), "your"), (("son", "sa", "ses"), ""),
    (("notre", "notre", "nos"), "our"), (("votre", "votre", "vos"), "your"), (("leur", "leur", "leurs"), "their"),
)  # fmt: skip
_PEOPLE = tuple(noun for noun in NOUNS if "person" in noun.tags)
_ANIMALS = tuple(noun for noun in NOUNS if "animal" in noun.tags)
_OWNABLE = frozenset(("thing", "food", "drink", "pet", "house", "poss", "kin", "want"))
_COUNTED = frozenset(("thing", "count", "animal", "person", "tale"))
_PLENTY = frozenset(("thing", "count"))
_LENT = frozenset(("thing", "pet"))

_COUNT_WEIGHTS = {"the": 3.0, "a": 3.2, "this": 1.2, "my": 1.8, "number": 0.9, "lot": 0.3, "too": 0.2, "of": 0.6}
_MASS_WEIGHTS = {"the": 3.5, "a": 4.0, "this": 0.8, "my": 0.8, "lot": 0.6, "too": 0.3}


def _determiners(noun: Noun) -> dict[str, float]:
    if "kin" in noun.tags:
        return {"my": 1.0}
    weights = dict(_MASS_WEIGHTS if noun.mass else _COUNT_WEIGHTS)
    for kind, needed in (("my", _OWNABLE), ("number", _COUNTED), ("lot", _PLENTY), ("too", _PLENTY), ("of", _LENT)):
        if not noun.tags & needed and not (noun.mass and kind in ("lot", "too")):
            weights.pop(kind, None)
    return weights


def _limited(kinds: str, the: float = 1.0) -> dict[Noun, Weighted[str]]:
    """Every noun's determiners, limited to these kinds (`a` where none is left); the: multiplies its weight."""
    tables = {}
    for noun in NOUNS:
        weights = {kind: weight for kind, weight in _determiners(noun).items() if kind in kinds.split()}
        if "the" in weights:
            weights["the"] *= the
        tables[noun] = Weighted.of(weights or {"a": 1.0})
    return tables


DETERMINERS = {
    "all": _limited("the a this my number lot too of"),
    "ordered": _limited("the a this my number of"),  # nobody orders too much tea
    "generic": _limited("the this my of", the=2.0),
    "indefinite": _limited("a number lot"),
    "definite": _limited("the this my of"),
}
_ADJECTIVES: dict[Noun, tuple[tuple[Adjective, ...], tuple[Adjective, ...]]] = {
    noun: (adjectives_of(noun), tuple(a for a in adjectives_of(noun) if a.second)) for noun in NOUNS
}


def possessive(index: int, head: str, feminine: bool, many: bool, owner: str) -> tuple[str, str]:
    """`mon` and `my` before `head`, the next French word (`mon amie`); index: 0 mon .. 5 leur."""
    forms, meaning = _POSSESSIVES[index]
    form = forms[2] if many else forms[1] if feminine and not french.elides(head) else forms[0]
    return form, meaning or owner


def _owner_index(draw: Draw, subject: NounPhrase | None) -> int:
    """Whose: mostly the subject's own; `son` only where the subject tells his from her."""
    if subject is not None and draw.chance(0.65):
        if subject.english_person == 2:
            return 2 if subject.owner else draw.pick((0, 1))
        return subject.english_person
    return draw.pick((0, 0, 1, 3, 4, 5))


def _core(draw: Draw, noun: Noun, many: bool, adjectives: float) -> tuple[str, str, bool]:
    """(French, English, begins with an adjective in French): the noun with no, one or two adjectives."""
    word_fr = french.plural(noun.french) if many else noun.french
    word_en = english.plural(noun.english) if many else noun.english
    choices, second = _ADJECTIVES[noun]
    if not choices or not draw.chance(adjectives):
        return word_fr, word_en, False
    adjective = draw.pick(choices)
    draw.combinations.append(("adjective", noun.french, adjective.french))
    if not adjective.before:
        return (
            f"{word_fr} {french.agree(adjective.french, noun.feminine, many)}",
            f"{adjective.english} {word_en}",
            False,
        )
    first = french.agree(adjective.french, noun.feminine, many, french.elides(word_fr))
    if second and draw.chance(0.15):
        other = draw.pick(second)
        draw.combinations.append(("adjective", noun.french, other.french))
        last = french.agree(other.french, noun.feminine, many)
        return f"{first} {word_fr} {last}", f"{adjective.english} {other.english} {word_en}", True
    return f"{first} {word_fr}", f"{adjective.english} {word_en}", True


def _indefinite_french(noun: Noun, core: str, adjective_first: bool, many: bool, negated: bool) -> str:
    if negated or (many and adjective_first):
        return french.elide("de", core)
    if many:
        return f"des {core}"
    if not noun.mass:
        return f"{'une' if noun.feminine else 'un'} {core}"
    if french.elides(core):
        return f"de l'{core}"
    return f"{'de la' if noun.feminine else 'du'} {core}"


def _indefinite_english(noun: Noun, core: str, many: bool, negated: bool, no: bool) -> str:
    if negated and no:
        return f"no {core}"
    if many or noun.mass:
        return f"{'any' if negated else 'some'} {core}"
    return f"{english.article(core)} {core}"


def _the(noun: Noun, core: str, many: bool) -> str:
    return f"les {core}" if many else french.elide("la" if noun.feminine else "le", core)


def _this(noun: Noun, core: str, many: bool) -> str:
    if many:
        return f"ces {core}"
    if noun.feminine:
        return f"cette {core}"
    return f"{'cet' if french.elides(core) else 'ce'} {core}"


def _quantity(draw: Draw, kind: str, noun: Noun) -> tuple[str, str]:
    if kind == "number":
        return draw.pick(NUMBERS)
    if kind == "lot":
        return "beaucoup de", "a lot of"
    return "trop de", "too much" if noun.mass else "too many"


def thing(
    draw: Draw,
    noun: Noun,
    verb: Verb | None = None,
    *,
    kinds: str = "all",
    subject: NounPhrase | None = None,
    negated: bool = False,
    no: bool = False,
    bare: bool = False,
    adjectives: float = 0.3,
) -> NounPhrase:
    """A noun phrase around `noun`. kinds: which determiners ("all", "generic", "indefinite", "definite").

    negated: under a negation, where `un` turns into `de` and `some` into `any` (no=True: into `no`). bare: the definite
    plural and mass noun have no article in English (`j'aime les chats`, `I love cats`).
    verb: the verb it is the object of; the pair is remembered in `draw.combinations`.
    """
    if verb is not None:
        draw.combinations.append(("object", verb.french, noun.french))
    kind = draw.weighted(DETERMINERS[kinds][noun])
    if no and negated:
        kind = "a"  # there is no cat, there are no cats
    counted = kind in ("number", "lot", "too")
    many = not noun.mass and "one" not in noun.tags and (counted or draw.chance(0.3))
    if kind == "a" and negated and french.plural(noun.french) == noun.french:
        many = False  # pas de bus: one or more, nobody could tell
    core, core_en, adjective_first = _core(draw, noun, many, adjectives)
    head = core.split(" ", 1)[0]
    if kind == "the":
        fr = _the(noun, core, many)
        en = core_en if bare and (many or noun.mass) else f"the {core_en}"
    elif kind == "a":
        fr = _indefinite_french(noun, core, adjective_first, many, negated)
        en = _indefinite_english(noun, core_en, many, negated, no)
    elif kind == "this":
        fr, en = _this(noun, core, many), f"{'these' if many else 'this'} {core_en}"
    elif kind == "my":
        owner = _owner_index(draw, subject)
        determiner, meaning = possessive(owner, head, noun.feminine, many, subject.owner if subject else "")
        fr, en = f"{determiner} {core}", f"{meaning} {core_en}"
    elif kind == "of":
        name = draw.pick(NAMES)[0]
        while subject is not None and name in subject.french:  # not `Sophie a perdu la clé de Sophie`
            name = draw.pick(NAMES)[0]
        fr, en = f"{_the(noun, core, many)} {french.elide('de', name)}", f"{name}'s {core_en}"
    else:
        quantity, meaning = _quantity(draw, kind, noun)
        head_fr, _, last = quantity.rpartition(" ")
        fr, en = f"{head_fr} {french.elide(last, core)}".lstrip(), f"{meaning} {core_en}"
    owner_word = "" if many or "person" not in noun.tags or "nosex" in noun.tags else "her" if noun.feminine else "his"
    person = 5 if many else 2
    return NounPhrase(fr, en, person, person, noun.feminine, many, owner_word)


def pronoun_subject(draw: Draw) -> NounPhrase:
    """je .. elles, in the gender and number that agreement needs."""
    return draw.pick(PRONOUNS)


def person_subject(draw: Draw) -> NounPhrase:
    """A person by name, two of them, or a noun: `Marie`, `Paul et Alice`, `ma voisine`."""
    if draw.chance(0.45):
        name, feminine = draw.pick(NAMES)
        if draw.chance(0.85):
            return NounPhrase(name, name, 2, 2, feminine, False, "her" if feminine else "his")
        other, other_feminine = draw.pick(NAMES)
        if other != name:
            return NounPhrase(f"{name} et {other}", f"{name} and {other}", 5, 5, feminine and other_feminine, True)
    return thing(draw, draw.pick(_PEOPLE), kinds="definite", adjectives=0.1)


def subject(draw: Draw, verb: Verb) -> NounPhrase:
    """A subject that can do what the verb says."""
    if draw.chance(0.62):
        return pronoun_subject(draw)
    if "animal" in verb.flags and draw.chance(0.4):
        return thing(draw, draw.pick(_ANIMALS), kinds="definite", adjectives=0.15)
    return person_subject(draw)
