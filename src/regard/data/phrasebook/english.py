"""English forms: plurals, a and an, verb forms, do-support and the order of words in a clause."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regard.data.phrasebook.sentences import Clause

__all__ = ["article", "be", "imperative", "join", "past", "plural", "progressive", "question", "statement", "third"]

_PLURALS = {
    "man": "men", "woman": "women", "child": "children", "mouse": "mice", "sheep": "sheep", "knife": "knives",
    "tomato": "tomatoes", "candy": "candies",
}  # fmt: skip
_PAST = {
    "eat": "ate", "drink": "drank", "buy": "bought", "sell": "sold", "see": "saw", "find": "found", "lose": "lost",
    "take": "took", "wear": "wore", "read": "read", "write": "wrote", "hear": "heard", "have": "had", "know": "knew",
    "understand": "understood", "forget": "forgot", "choose": "chose", "make": "made", "cut": "cut", "drive": "drove",
    "draw": "drew", "break": "broke", "give": "gave", "send": "sent", "bring": "brought", "lend": "lent",
    "sleep": "slept", "sing": "sang", "run": "ran", "swim": "swam", "go": "went", "come": "came", "leave": "left",
    "fall": "fell", "get": "got", "wake": "woke", "say": "said", "think": "thought", "show": "showed",
    "prefer": "preferred",
}  # fmt: skip
_DOUBLED = frozenset(("cut", "run", "swim", "get", "forget", "prefer"))  # cutting
_AN_ANYWAY = ("honest", "hour")  # a silent h
_A_ANYWAY = ("useful", "university", "European")  # begins with the sound of "you"


def join(words: Iterable[str]) -> str:
    """Words to text; empty words are dropped."""
    return " ".join(word for word in words if word)


def article(word: str) -> str:
    """`a` or `an`, by the sound that `word` begins with."""
    if word.startswith(_AN_ANYWAY):
        return "an"
    return "an" if word[0] in "aeiouAEIOU" and not word.startswith(_A_ANYWAY) else "a"


def _add_s(word: str) -> str:
    if word.endswith(("s", "x", "ch", "sh", "z", "o")) and word not in ("photo",):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeou":
        return word[:-1] + "ies"
    return word + "s"


@cache
def plural(noun: str) -> str:
    """Plural of a noun."""
    return _PLURALS.get(noun) or _add_s(noun)


def _on_first(verb: str, inflect: dict[str, str], default: str) -> str:
    head, space, particle = verb.partition(" ")
    return inflect.get(head, default) + space + particle


@cache
def third(verb: str) -> str:
    """Third person singular: `loves`, `goes to bed`."""
    return _on_first(verb, {"have": "has"}, _add_s(verb.split()[0]))


@cache
def past(verb: str) -> str:
    """Simple past: `ate`, `looked at`."""
    head = verb.split()[0]
    if head.endswith("e"):
        regular = head + "d"
    elif head.endswith("y") and head[-2] not in "aeou":
        regular = head[:-1] + "ied"
    else:
        regular = head + "ed"
    return _on_first(verb, _PAST, regular)


@cache
def progressive(verb: str) -> str:
    """The -ing form: `taking`, `looking at`."""
    head = verb.split()[0]
    if head in _DOUBLED:
        stem = head + head[-1]
    else:
        stem = head[:-1] if head.endswith("e") and not head.endswith("ee") else head
    return _on_first(verb, {}, stem + "ing")


def be(person: int, was: bool = False) -> str:
    """Form of `be`; person as in French: 0 I, 2 he, she, it; the others take `are`."""
    if was:
        return "was" if person in (0, 2) else "were"
    return {0: "am", 2: "is"}.get(person, "are")


def _group(clause: Clause) -> tuple[str, str, str]:
    """(auxiliary, main, tense of do-support): the auxiliary is empty where a simple form is used."""
    verb, person, tense = clause.verb, clause.subject.english_person, clause.tense
    base = verb.english
    if tense == "near":
        return be(person), f"going to {base}", ""
    if tense in ("future", "can", "must"):
        return {"future": "will"}.get(tense, tense), base, ""
    if tense == "want":
        return "", f"want to {base}", "present"
    if base == "be":
        return be(person, was=tense != "present"), "", ""
    if verb.aspect == "action" and not clause.habitual and tense in ("present", "imperfect"):
        return be(person, was=tense == "imperfect"), progressive(base), ""
    return "", base, "present" if tense == "present" else "past"


def _inflected(base: str, support: str, person: int) -> str:
    if support == "past":
        return past(base)
    return third(base) if person == 2 else base


def _support(support: str, person: int) -> str:
    if support == "past":
        return "did"
    return "does" if person == 2 else "do"


def _after(clause: Clause) -> tuple[str, str]:
    return clause.clitic.english if clause.clitic is not None else "", clause.tail[1]


def _middle(clause: Clause) -> str:
    return {"jamais": "never", "plus": "no longer"}.get(clause.negation, "") or clause.adverb[1]


def statement(clause: Clause) -> str:
    """Subject first: `he does not love me`. No capital (but I), no final mark."""
    auxiliary, main, support = _group(clause)
    person = clause.subject.english_person
    negative = "not" if clause.negation == "pas" else ""
    if not auxiliary and negative:
        auxiliary = _support(support, person)
    elif not auxiliary:
        main = _inflected(main, support, person)
    if auxiliary == "can" and negative:
        auxiliary, negative = "cannot", ""
    return join((clause.subject.english, auxiliary, negative, _middle(clause), main, *_after(clause)))


def question(clause: Clause) -> str:
    """The auxiliary first: `does he love me`, `is she eating`."""
    auxiliary, main, support = _group(clause)
    auxiliary = auxiliary or _support(support, clause.subject.english_person)
    negative = "not" if clause.negation == "pas" else ""
    return join((auxiliary, clause.subject.english, negative, _middle(clause), main, *_after(clause)))


def imperative(clause: Clause) -> str:
    """The order: `eat the apple`, `do not look at me`, `let's eat`."""
    words = join((clause.verb.english, *_after(clause)))
    if clause.subject.person == 3:
        return f"let's not {words}" if clause.negation else f"let's {words}"
    return f"do not {words}" if clause.negation else words
