"""French forms: conjugation, agreement, elision, contraction and the order of words in a clause."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.data.phrasebook.sentences import Clause

__all__ = ["agree", "conjugate", "elide", "inversion", "join", "participle", "plural", "statement", "with_preposition"]

_VOWELS = frozenset("aeiouyàâéèêëîïôûùœæAEIOUYÀÂÉÈÊËÎÏÔÛÙŒÆ")
_ASPIRATED = ("haricot", "huit")  # h that blocks elision: le haricot
_BLOCKED = ("onze",)  # a vowel that does not elide: le onze
_ELIDED = frozenset(("je", "me", "te", "se", "le", "la", "ne", "de", "que", "Je", "Ne", "Me", "Te", "Le", "La", "Que"))

# infinitive: six present forms, past participle, future stem
_IRREGULAR = {
    "être": ("suis es est sommes êtes sont", "été", "ser"),
    "avoir": ("ai as a avons avez ont", "eu", "aur"),
    "aller": ("vais vas va allons allez vont", "allé", "ir"),
    "venir": ("viens viens vient venons venez viennent", "venu", "viendr"),
    "voir": ("vois vois voit voyons voyez voient", "vu", "verr"),
    "vouloir": ("veux veux veut voulons voulez veulent", "voulu", "voudr"),
    "pouvoir": ("peux peux peut pouvons pouvez peuvent", "pu", "pourr"),
    "devoir": ("dois dois doit devons devez doivent", "dû", "devr"),
    "savoir": ("sais sais sait savons savez savent", "su", "saur"),
    "boire": ("bois bois boit buvons buvez boivent", "bu", "boir"),
    "prendre": ("prends prends prend prenons prenez prennent", "pris", "prendr"),
    "comprendre": ("comprends comprends comprend comprenons comprenez comprennent", "compris", "comprendr"),
    "lire": ("lis lis lit lisons lisez lisent", "lu", "lir"),
    "écrire": ("écris écris écrit écrivons écrivez écrivent", "écrit", "écrir"),
    "connaître": ("connais connais connaît connaissons connaissez connaissent", "connu", "connaîtr"),
    "ouvrir": ("ouvre ouvres ouvre ouvrons ouvrez ouvrent", "ouvert", "ouvrir"),
    "conduire": ("conduis conduis conduit conduisons conduisez conduisent", "conduit", "conduir"),
    "dormir": ("dors dors dort dormons dormez dorment", "dormi", "dormir"),
    "partir": ("pars pars part partons partez partent", "parti", "partir"),
    "sortir": ("sors sors sort sortons sortez sortent", "sorti", "sortir"),
    "courir": ("cours cours court courons courez courent", "couru", "courr"),
    "rire": ("ris ris rit rions riez rient", "ri", "rir"),
    "faire": ("fais fais fait faisons faites font", "fait", "fer"),
    "dire": ("dis dis dit disons dites disent", "dit", "dir"),
    "envoyer": ("envoie envoies envoie envoyons envoyez envoient", "envoyé", "enverr"),
}
# Verbs in -er whose stem changes before a silent e: the changed stem, and whether the future uses it.
_STEMS = {
    "acheter": ("achèt", True), "lever": ("lèv", True), "promener": ("promèn", True), "appeler": ("appell", True),
    "préférer": ("préfèr", False),
}  # fmt: skip
_ENDINGS = {
    "er": ("e", "es", "e", "ons", "ez", "ent"),
    "ir": ("is", "is", "it", "issons", "issez", "issent"),
    "re": ("s", "s", "", "ons", "ez", "ent"),
}
_IMPERFECT = ("ais", "ais", "ait", "ions", "iez", "aient")
_FUTURE = ("ai", "as", "a", "ons", "ez", "ont")
_FEMININE = {
    "blanc": "blanche", "beau": "belle", "nouveau": "nouvelle", "vieux": "vieille", "bon": "bonne",
    "gentil": "gentille", "cher": "chère", "italien": "italienne",
}  # fmt: skip
_BEFORE_VOWEL = {"beau": "bel", "nouveau": "nouvel", "vieux": "vieil"}
_REFLEXIVE = ("me", "te", "se", "nous", "vous", "se")
# Tenses said with a second verb and an infinitive: `je vais manger`.
WITH_INFINITIVE = {"near": "aller", "want": "vouloir", "can": "pouvoir", "must": "devoir"}


def elides(word: str) -> bool:
    """Whether `le` becomes `l'` before this word."""
    if word.startswith(_ASPIRATED) or word in _BLOCKED:
        return False
    return word[0] in _VOWELS or word[0] in "hH"


def elide(first: str, second: str) -> str:
    """Two words side by side: `elide("je", "aime")` is `j'aime`, `elide("je", "vois")` is `je vois`."""
    return f"{first[:-1]}'{second}" if first in _ELIDED and elides(second) else f"{first} {second}"


def join(words: Iterable[str]) -> str:
    """Words to text, with elision; empty words are dropped."""
    text = ""
    previous = ""
    for word in words:
        if not word:
            continue
        cut = previous in _ELIDED and elides(word)
        text = f"{text[:-1]}'{word}" if cut else f"{text} {word}" if text else word
        previous = word
    return text


def with_preposition(preposition: str, phrase: str) -> str:
    """`à` or `de` with a noun phrase, contracted: `au marché`, `aux enfants`, `du voisin`, `d'Alice`."""
    head, space, rest = phrase.partition(" ")
    contracted = {("à", "le"): "au", ("à", "les"): "aux", ("de", "le"): "du", ("de", "les"): "des"}
    if space and (preposition, head) in contracted:
        return f"{contracted[preposition, head]} {rest}"
    return elide(preposition, phrase)


@cache
def plural(noun: str) -> str:
    """Plural of a noun or of an adjective's masculine or feminine."""
    if noun[-1] in "sxz":
        return noun
    if noun.endswith("al"):
        return noun[:-2] + "aux"
    return noun + ("x" if noun.endswith("eau") else "s")


@cache
def agree(adjective: str, feminine: bool, many: bool, vowel_next: bool = False) -> str:
    """The form of an adjective or participle. vowel_next: it stands right before a vowel (`un bel arbre`)."""
    if vowel_next and not feminine and not many and adjective in _BEFORE_VOWEL:
        return _BEFORE_VOWEL[adjective]
    form = adjective
    if feminine:
        if adjective in _FEMININE:
            form = _FEMININE[adjective]
        elif adjective.endswith("eux"):
            form = adjective[:-1] + "se"
        elif not adjective.endswith("e"):
            form = adjective + "e"
    return plural(form) if many else form


@cache
def participle(infinitive: str) -> str:
    """The past participle, masculine singular."""
    if infinitive in _IRREGULAR:
        return _IRREGULAR[infinitive][1]
    return infinitive[:-2] + {"er": "é", "ir": "i", "re": "u"}[infinitive[-2:]]


def _present(infinitive: str) -> tuple[str, ...]:
    if infinitive in _IRREGULAR:
        return tuple(_IRREGULAR[infinitive][0].split())
    stem, group = infinitive[:-2], infinitive[-2:]
    forms = [stem + ending for ending in _ENDINGS[group]]
    if infinitive in _STEMS:
        for person in (0, 1, 2, 5):
            forms[person] = _STEMS[infinitive][0] + _ENDINGS[group][person]
    if infinitive.endswith("ger"):
        forms[3] = stem + "eons"
    return tuple(forms)


def _future_stem(infinitive: str) -> str:
    if infinitive in _IRREGULAR:
        return _IRREGULAR[infinitive][2]
    if infinitive in _STEMS and _STEMS[infinitive][1]:
        return _STEMS[infinitive][0] + "er"
    return infinitive[:-1] if infinitive.endswith("re") else infinitive


@cache
def conjugate(infinitive: str, tense: str, person: int) -> str:
    """One simple form. tense: "present", "imperfect", "future", "imperative"; person: 0 je, 1 tu .. 5 ils."""
    if tense == "present":
        return _present(infinitive)[person]
    if tense == "future":
        return _future_stem(infinitive) + _FUTURE[person]
    if tense == "imperative":
        form = _present(infinitive)[person]
        drops_s = person == 1 and (form.endswith("es") or form == "vas")
        return form[:-1] if drops_s else form
    stem = "ét" if infinitive == "être" else _present(infinitive)[3].removesuffix("ons")
    if stem.endswith("ge") and _IMPERFECT[person].startswith("i"):
        stem = stem[:-1]  # mangions, but mangeais
    return stem + _IMPERFECT[person]


def _finite(clause: Clause) -> tuple[str, str]:
    """The conjugated word and what follows it (participle or infinitive, with the clitic an infinitive takes)."""
    verb, subject = clause.verb, clause.subject
    person = subject.person
    if clause.tense in WITH_INFINITIVE:
        return conjugate(WITH_INFINITIVE[clause.tense], "present", person), join((_clitic(clause), verb.french))
    if clause.tense != "past":
        return conjugate(verb.french, clause.tense, person), ""
    form = participle(verb.french)
    if "etre" in verb.flags or "reflexive" in verb.flags:
        return conjugate("être", "present", person), agree(form, subject.feminine, subject.plural)
    if clause.clitic is not None and not clause.clitic.dative:  # a direct object before avoir: je les ai vues
        form = agree(form, clause.clitic.feminine, clause.clitic.plural)
    return conjugate("avoir", "present", person), form


def _clitic(clause: Clause) -> str:
    if "reflexive" in clause.verb.flags:
        return _REFLEXIVE[clause.subject.person]
    return clause.clitic.french if clause.clitic is not None else ""


def _predicate(clause: Clause, pronoun: str = "") -> list[str]:
    """Everything after the subject; `pronoun` is the inverted subject of a question (`aimes-tu`)."""
    finite, rest = _finite(clause)
    clitic = "" if clause.tense in WITH_INFINITIVE else _clitic(clause)
    if pronoun:
        link = "-t-" if finite[-1] in "ae" and pronoun in ("il", "elle", "on") else "-"
        finite = f"{finite}{link}{pronoun}"
    negative = clause.negation
    return ["ne" if negative else "", *clitic.split(), finite, negative, clause.adverb[0], rest, clause.tail[0]]


def statement(clause: Clause) -> str:
    """Subject first: `tu ne me vois pas`. No capital, no final mark."""
    return join((clause.subject.french, *_predicate(clause)))


def inversion(clause: Clause) -> str:
    """The inverted question of a pronoun subject: `m'aimes-tu`."""
    return join(_predicate(clause, clause.subject.french))


def imperative(clause: Clause) -> str:
    """The order: `mange la pomme`, `aide-moi`, `ne me regarde pas`."""
    form = conjugate(clause.verb.french, "imperative", clause.subject.person)
    if clause.negation:
        return join(("ne", _clitic(clause), form, clause.negation, clause.tail[0]))
    clitic = {"me": "moi"}.get(_clitic(clause), _clitic(clause))
    return join((f"{form}-{clitic}" if clitic else form, clause.tail[0]))
