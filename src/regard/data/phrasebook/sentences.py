"""The constructions of the phrasebook: each draws a sentence in both languages at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from regard.data.phrasebook import english, french
from regard.data.phrasebook.lexicon import (
    IDIOMS,
    MOODS,
    NOUNS,
    NUMBERS,
    PROFESSIONS,
    TOWNS,
    VERBS,
    Adjective,
    Noun,
    Verb,
    adjectives_of,
    objects_of,
)
from regard.data.phrasebook.phrases import (
    DETERMINERS,
    Draw,
    NounPhrase,
    Weighted,
    person_subject,
    pronoun_subject,
    subject,
    thing,
)

__all__ = ["CONSTRUCTIONS", "Clause", "Clitic", "sentence"]

Sentence = tuple[str, str, str]
"""French, English, final mark (".", "?" or "!"); no capital yet."""


class Clitic(NamedTuple):
    """An object pronoun before the verb. dative: `il me parle`, with which a participle does not agree."""

    french: str
    english: str
    feminine: bool = False
    plural: bool = False
    dative: bool = False


class Clause(NamedTuple):
    """What one clause says, in both languages. Pairs are (French, English).

    tense: "present", "past" (passé composé), "imperfect", "future", "near" (je vais ...), "want", "can", "must".
    negation: "", "pas", "jamais" or "plus". habitual: an action's English
    present is simple (every day), not progressive.
    """

    subject: NounPhrase
    verb: Verb
    tense: str
    negation: str = ""
    clitic: Clitic | None = None
    adverb: tuple[str, str] = ("", "")
    tail: tuple[str, str] = ("", "")
    habitual: bool = False


_BE = Verb("être", "be", "state")
_TENSES = {
    "action": {"present": 4, "past": 2.2, "imperfect": 1.2, "future": 1.4, "near": 1, "want": 0.8, "can": 0.7,
               "must": 0.7},
    "state": {"present": 5, "past": 1.2, "imperfect": 1.4, "future": 1.2, "near": 0.6},
    "event": {"past": 6, "future": 2, "near": 1.5},
    "be": {"present": 5, "imperfect": 1.5, "future": 1.5, "near": 0.5},
}  # fmt: skip
_TENSES_OF: dict[str, Weighted[str]] = {
    verb.french: Weighted.of(
        {tense: w for tense, w in _TENSES[verb.aspect].items() if tense != "past" or "noperfect" not in verb.flags}
    )
    for verb in VERBS
} | {"être": Weighted.of(_TENSES["be"])}
_TIMES = {
    "present": (("maintenant", "now"), ("aujourd'hui", "today")),
    "past": (("hier", "yesterday"), ("ce matin", "this morning"), ("hier soir", "last night"),
             ("aujourd'hui", "today")),
    "future": (("demain", "tomorrow"), ("ce soir", "tonight"), ("demain matin", "tomorrow morning")),
    "near": (("demain", "tomorrow"), ("ce soir", "tonight")),
    "want": (("maintenant", "now"), ("demain", "tomorrow")),
    "can": (("maintenant", "now"), ("demain", "tomorrow")),
    "must": (("maintenant", "now"), ("ce soir", "tonight")),
}  # fmt: skip
_HABITS = (("tous les jours", "every day"), ("chaque matin", "every morning"), ("le dimanche", "on Sundays"))
_FREQUENCY = (("souvent", "often"), ("toujours", "always"), ("parfois", "sometimes"))
_ACCUSATIVE = tuple(
    Clitic(fr, en, feminine, plural)
    for fr, en, plural in (("me", "me", False), ("te", "you", False), ("nous", "us", True), ("vous", "you", True),
                           ("les", "them", True))
    for feminine in (False, True)
) + (Clitic("le", "him"), Clitic("la", "her", True))  # fmt: skip
_DATIVE = tuple(
    Clitic(fr, en, dative=True)
    for fr, en in (("me", "me"), ("te", "you"), ("nous", "us"), ("vous", "you"), ("leur", "them"))
)
_GENERIC_TENSES = ("present", "present", "present", "imperfect", "future", "near")
_FIRST, _SECOND = ("me", "nous"), ("te", "vous")

_TRANSITIVE = tuple(v for v in VERBS if v.objects and not v.flags & {"dative", "give"} and v.french != "chanter")
_HUMAN = tuple(v for v in VERBS if "human" in v.flags)
_GIVE = tuple(v for v in VERBS if "give" in v.flags)
_INTRANSITIVE = tuple(
    v for v in VERBS if (not v.objects or v.french == "chanter") and v.french not in ("aller", "habiter")
)
_ORDERED = tuple(v for v in _TRANSITIVE if v.aspect == "action" and v.french not in ("porter", "conduire"))
_OBJECTS = {verb.french: objects_of(verb) for verb in VERBS}
_VERB = {verb.french: verb for verb in VERBS}
_PEOPLE = tuple(noun for noun in NOUNS if "person" in noun.tags)
_SMALL = tuple(noun for noun in NOUNS if "small" in noun.tags or "pet" in noun.tags or "count" in noun.tags)
_PLACES = tuple(noun for noun in NOUNS if "place" in noun.tags and noun.french != "jardin")
_DESCRIBED = tuple(noun for noun in NOUNS if adjectives_of(noun) and "person" not in noun.tags)


def _by_tags(*tags: str) -> tuple[Noun, ...]:
    return tuple(noun for noun in NOUNS if noun.tags & set(tags) or noun.french in tags)


# French preposition, English, where; whether small things only can be there.
_LOCATIONS = (
    ("dans", "in", _by_tags("room", "maison", "parc"), False),
    ("dans", "in", _by_tags("sac", "boîte", "voiture"), True),
    ("sur", "on", _by_tags("furniture"), True), ("sous", "under", _by_tags("furniture", "arbre"), True),
    ("devant", "in front of", _by_tags("building", "maison", "porte", "arbre"), False),
    ("derrière", "behind", _by_tags("building", "maison", "porte", "arbre"), False),
    ("près de", "near", _by_tags("building", "maison", "fenêtre", "village"), False),
)  # fmt: skip


def _location(draw: Draw, small: bool) -> tuple[str, str]:
    preposition, meaning, nouns, small_only = draw.pick(_LOCATIONS)
    while small_only and not small:
        preposition, meaning, nouns, small_only = draw.pick(_LOCATIONS)
    place = thing(draw, draw.pick(nouns), kinds="definite", adjectives=0.1)
    head, _, last = preposition.rpartition(" ")
    phrase = f"{preposition} {place.french}"
    if last == "de":
        phrase = f"{head} {french.with_preposition(last, place.french)}"
    return phrase, f"{meaning} {place.english}"


def _place(draw: Draw, motion: bool) -> tuple[str, str]:
    """`à la gare`: to the station, or at the station; `à Paris`: to Paris, or in Paris."""
    if draw.chance(0.25):
        phrase, name = draw.pick(TOWNS)
        return phrase, f"{'to' if motion else 'in'} {name}"
    noun = draw.pick(_PLACES)
    the = french.elide("la" if noun.feminine else "le", noun.french)
    name = noun.english if "bare" in noun.tags else f"the {noun.english}"
    return french.with_preposition("à", the), f"{'to' if motion else 'at'} {name}"


def _both(*pairs: tuple[str, str]) -> tuple[str, str]:
    return " ".join(fr for fr, _ in pairs if fr), " ".join(en for _, en in pairs if en)


def _setting(draw: Draw, who: NounPhrase, verb: Verb, tense: str = "") -> Clause:
    """Tense, negation, adverb and time for a verb; the time is in the tail, to be put after the objects."""
    tense = tense or draw.weighted(_TENSES_OF[verb.french])
    present = tense == "present"
    roll = draw.pick(range(100))
    negation = "pas" if roll < 17 else "jamais" if present and roll < 20 else "plus" if present and roll < 23 else ""
    habitual = negation in ("jamais", "plus")
    adverb, time = ("", ""), ("", "")
    if verb.aspect != "state" and tense in ("present", "imperfect") and not negation and draw.chance(0.12):
        adverb, habitual = draw.pick(_FREQUENCY), True
    elif verb.aspect == "action" and tense in ("present", "imperfect") and not habitual and draw.chance(0.1):
        time, habitual = draw.pick(_HABITS), True
    elif "generic" in verb.flags and present and not negation and draw.chance(0.1):
        adverb = ("vraiment", "really")
    elif verb.aspect != "state" and tense in _TIMES and not habitual and draw.chance(0.14):
        time = draw.pick(_TIMES[tense])
    return Clause(who, verb, tense, negation, None, adverb, time, habitual)


def _say(draw: Draw, clause: Clause, questions: float = 0.22) -> Sentence:
    """The clause as a statement or, with that chance, a question (est-ce que, or inversion after a pronoun)."""
    if clause.negation or not draw.chance(questions):
        return french.statement(clause), english.statement(clause), "."
    if clause.subject.pronoun and clause.subject.person != 0 and draw.chance(0.5):
        return french.inversion(clause), english.question(clause), "?"
    return "est-ce " + french.elide("que", french.statement(clause)), english.question(clause), "?"


def _object(draw: Draw, clause: Clause, kinds: str = "all") -> NounPhrase:
    verb = clause.verb
    generic = "generic" in verb.flags
    return thing(
        draw, draw.pick(_OBJECTS[verb.french]), verb,
        kinds="generic" if generic else kinds, bare=generic, subject=clause.subject, negated=bool(clause.negation),
    )  # fmt: skip


def transitive(draw: Draw) -> Sentence:
    """La fille mange une pomme rouge."""
    verb = draw.pick(_TRANSITIVE)
    # In the passé composé `il a aimé les chats` could be the cats or cats: not said here.
    tense = draw.pick(_GENERIC_TENSES) if "generic" in verb.flags else ""
    clause = _setting(draw, subject(draw, verb), verb, tense)
    noun_phrase = _object(draw, clause)
    tail = _both((noun_phrase.french, noun_phrase.english), clause.tail)
    return _say(draw, clause._replace(tail=tail))


def _clitic_for(draw: Draw, who: NounPhrase, verb: Verb, tense: str) -> Clitic:
    """An object pronoun that is not the subject itself. `l'aime` (him? her? it?) is never drawn."""
    first, second = who.english_person in (0, 3), who.english_person in (1, 4)
    vowel = french.elides(verb.french) and tense != "past"
    while True:
        clitic = draw.pick(_DATIVE if "dative" in verb.flags else _ACCUSATIVE)
        if (first and clitic.french in _FIRST) or (second and clitic.french in _SECOND):
            continue
        if vowel and clitic.french in ("le", "la"):
            continue
        return clitic


def object_pronoun(draw: Draw) -> Sentence:
    """Je t'aime. Elle ne nous a pas vus."""
    verb = draw.pick(_HUMAN)
    who = pronoun_subject(draw) if draw.chance(0.75) else person_subject(draw)
    clause = _setting(draw, who, verb)
    clause = clause._replace(clitic=_clitic_for(draw, who, verb, clause.tense))
    if "generic" in verb.flags and clause.tense == "present" and not clause.adverb[0] and draw.chance(0.15):
        clause = clause._replace(tail=("beaucoup", "very much"))
    return _say(draw, clause)


def intransitive(draw: Draw) -> Sentence:
    """Les enfants jouent au parc. Nous nous reposons. Elle est partie hier."""
    verb = draw.pick(_INTRANSITIVE)
    clause = _setting(draw, subject(draw, verb), verb)
    if "place" in verb.flags and draw.chance(0.6):
        clause = clause._replace(tail=_both(_place(draw, motion=False), clause.tail))
    elif verb.aspect == "state" and draw.chance(0.8):
        number, word = draw.pick(NUMBERS[:10])
        clause = clause._replace(tail=(f"à {number} heures", f"at {word} o'clock"))
    return _say(draw, clause)


def motion(draw: Draw) -> Sentence:
    """Je vais à l'école. Ils habitent à Londres."""
    verb = draw.pick((_VERB["aller"], _VERB["aller"], _VERB["aller"], _VERB["venir"], _VERB["habiter"]))
    clause = _setting(draw, subject(draw, verb), verb)
    if verb.french != "habiter":
        return _say(draw, clause._replace(tail=_both(_place(draw, motion=True), clause.tail)))
    phrase, name = draw.pick(TOWNS)
    return _say(draw, clause._replace(tail=(phrase, f"in {name}")))


def talk(draw: Draw) -> Sentence:
    """Il parle à sa sœur. -> He is talking to his sister."""
    verb = draw.pick((_VERB["parler"], _VERB["répondre"]))
    clause = _setting(draw, subject(draw, verb), verb)
    someone = thing(draw, draw.pick(_PEOPLE), verb, kinds="definite", subject=clause.subject, adjectives=0.1)
    return _say(
        draw, clause._replace(tail=_both((french.with_preposition("à", someone.french), someone.english), clause.tail))
    )


def give(draw: Draw) -> Sentence:
    """Elle donne une fleur à sa mère. Tu me montres ta maison."""
    verb = draw.pick(_GIVE)
    clause = _setting(draw, pronoun_subject(draw) if draw.chance(0.7) else person_subject(draw), verb)
    noun = draw.pick(_OBJECTS[verb.french])
    what = thing(draw, noun, verb, subject=clause.subject, negated=bool(clause.negation), adjectives=0.15)
    if draw.chance(0.5):
        first, second = clause.subject.english_person in (0, 3), clause.subject.english_person in (1, 4)
        barred = _FIRST if first else _SECOND if second else ()
        clitic = draw.pick(tuple(c for c in _DATIVE if c.french not in barred))
        return _say(draw, clause._replace(clitic=clitic, tail=_both((what.french, what.english), clause.tail)))
    someone = thing(draw, draw.pick(_PEOPLE), kinds="definite", subject=clause.subject, adjectives=0)
    recipient = (french.with_preposition("à", someone.french), f"to {someone.english}")
    # The time is left out here (the sentence is long enough), and with it the habit that it named.
    habitual = clause.habitual and clause.tail not in _HABITS
    return _say(draw, clause._replace(tail=_both((what.french, what.english), recipient), habitual=habitual))


def _be(draw: Draw, who: NounPhrase, tail: tuple[str, str], questions: float = 0.22) -> Sentence:
    """`who` is `tail`."""
    clause = _setting(draw, who, _BE)
    return _say(draw, clause._replace(tail=tail), questions)


def mood(draw: Draw) -> Sentence:
    """Elle est heureuse. Mon frère n'est pas grand."""
    who = pronoun_subject(draw) if draw.chance(0.65) else person_subject(draw)
    adjective = draw.pick(MOODS)
    very = draw.pick((("", ""), ("", ""), ("", ""), ("très", "very"), ("trop", "too")))
    form = french.agree(adjective.french, who.feminine, who.plural)
    return _be(draw, who, _both(very, (form, adjective.english)))


def quality(draw: Draw) -> Sentence:
    """La voiture de Paul est rouge."""
    noun = draw.pick(_DESCRIBED)
    adjective = draw.pick(adjectives_of(noun))
    what = thing(draw, noun, kinds="definite", adjectives=0)
    draw.combinations.append(("adjective", noun.french, adjective.french))
    form = french.agree(adjective.french, what.feminine, what.plural)
    very = ("très", "very") if not adjective.second and draw.chance(0.2) else ("", "")
    return _be(draw, what, _both(very, (form, adjective.english)))


def _compare(draw: Draw, adjective: Adjective, who: NounPhrase, other: tuple[str, str]) -> Sentence:
    form = french.agree(adjective.french, who.feminine, who.plural)
    than = french.elide("que", other[0])
    if draw.chance(0.3):
        return _be(draw, who, (f"aussi {form} {than}", f"as {adjective.english} as {other[1]}"))
    plus = {"bon": "meilleur", "mauvais": "pire"}.get(adjective.french)
    form = french.agree(plus, who.feminine, who.plural) if plus else f"plus {form}"
    return _be(draw, who, (f"{form} {than}", f"{adjective.comparative} than {other[1]}"))


def comparison(draw: Draw) -> Sentence:
    """Marie est plus grande que Paul. Mon livre est plus cher que ton stylo."""
    if draw.chance(0.6):
        who, other = pronoun_subject(draw) if draw.chance(0.4) else person_subject(draw), person_subject(draw)
        while other == who:
            other = person_subject(draw)
        return _compare(draw, draw.pick(MOODS[:7]), who, (other.french, other.english))
    noun = draw.pick(_DESCRIBED)
    choices = tuple(a for a in adjectives_of(noun) if not a.second)
    adjective = draw.pick(choices)
    draw.combinations.append(("adjective", noun.french, adjective.french))
    what, other = thing(draw, noun, kinds="definite", adjectives=0), thing(draw, noun, kinds="definite", adjectives=0)
    while other.french == what.french:
        other = thing(draw, noun, kinds="definite", adjectives=0)
    return _compare(draw, adjective, what, (other.french, other.english))


def idiom(draw: Draw) -> Sentence:
    """J'ai faim. -> I am hungry. Il a dix ans. -> He is ten years old."""
    who = pronoun_subject(draw) if draw.chance(0.6) else person_subject(draw)
    if draw.chance(0.35):
        number, word = draw.pick(NUMBERS)
        noun, meaning = f"{number} ans", f"{word} years old"
    else:
        noun, meaning = draw.pick(IDIOMS)
    avoir = Verb("avoir", "be", "state")
    clause = _setting(draw, who, avoir, draw.pick(("present", "present", "imperfect", "future")))
    if clause.negation and noun.startswith("de la "):
        noun = noun.replace("de la ", "de ")
    return _say(draw, clause._replace(tail=(noun, meaning)))


def profession(draw: Draw) -> Sentence:
    """Elle est médecin. -> She is a doctor."""
    who = pronoun_subject(draw) if draw.chance(0.6) else person_subject(draw)
    job, meaning = draw.pick(PROFESSIONS)
    if who.plural or who.english_person in (3, 5):
        return _be(draw, who, (french.plural(job) if who.plural else job, english.plural(meaning)))
    return _be(draw, who, (job, f"{english.article(meaning)} {meaning}"))


def there_is(draw: Draw) -> Sentence:
    """Il y a un chat noir dans la cuisine."""
    noun = draw.pick(_SMALL)
    tense = draw.pick(("present", "present", "imperfect", "future"))
    negation = "pas" if draw.chance(0.2) else ""
    what = thing(draw, noun, kinds="indefinite", negated=bool(negation), no=True)
    no = " no " in f" {what.english} "
    form = french.conjugate("avoir", tense, 2)
    place = _location(draw, small=True)
    many = what.plural
    asked = not negation and draw.chance(0.25)
    words_fr = ["il", "n'y" if negation else "y", form, negation, what.french, place[0]]
    if tense == "future":
        finite, rest = "will", "be"
    else:
        finite, rest = english.be(5 if many else 2, was=tense == "imperfect"), ""
    if asked:
        fr = f"est-ce qu'{french.join(words_fr)}"
        if draw.chance(0.5):
            fr = french.join(("y", f"{form}-t-il", what.french, place[0]))
        return fr, english.join((finite, "there", rest, what.english, place[1])), "?"
    denial = "not" if negation and not no else ""
    return french.join(words_fr), english.join(("there", finite, denial, rest, what.english, place[1])), "."


def whereabouts(draw: Draw) -> Sentence:
    """Le chat est sous la table. Paul est à la gare."""
    if draw.chance(0.5):
        who = pronoun_subject(draw) if draw.chance(0.5) else person_subject(draw)
        return _be(draw, who, _place(draw, motion=False) if draw.chance(0.7) else _location(draw, small=False))
    return _be(draw, thing(draw, draw.pick(_SMALL), kinds="definite"), _location(draw, small=True))


def where(draw: Draw) -> Sentence:
    """Où est ton livre ? Où vas-tu ?"""
    if draw.chance(0.5):
        what = thing(draw, draw.pick(_DESCRIBED), kinds="definite") if draw.chance(0.7) else person_subject(draw)
        clause = Clause(what, _BE, draw.pick(("present", "present", "imperfect")))
        form = french.conjugate("être", clause.tense, what.person)
        return f"où {form} {what.french}", f"where {english.question(clause)}", "?"
    verb = draw.pick(tuple(v for v in VERBS if v.flags & {"place", "motion", "home"} and v.french != "venir"))
    return _wh(draw, "où", "where", _setting(draw, pronoun_subject(draw), verb))


def _wh(draw: Draw, word: str, meaning: str, clause: Clause) -> Sentence:
    """A question with a question word: `pourquoi est-ce que tu ris`, `pourquoi ris-tu`."""
    if word != "pourquoi":
        clause = clause._replace(negation="", habitual=False)
    clause = clause._replace(tail=("", ""), adverb=("", ""), habitual=clause.negation in ("jamais", "plus"))
    asked = english.question(clause)
    if not clause.negation and clause.subject.pronoun and clause.subject.person != 0 and draw.chance(0.5):
        return f"{word} {french.inversion(clause)}", f"{meaning} {asked}", "?"
    return f"{word} est-ce {french.elide('que', french.statement(clause))}", f"{meaning} {asked}", "?"


def when_and_why(draw: Draw) -> Sentence:
    """Pourquoi est-ce que tu ne manges pas ? Quand pars-tu ?"""
    verb = draw.pick(_INTRANSITIVE)
    word, meaning = draw.pick((("pourquoi", "why"), ("quand", "when"), ("comment", "how")))
    if word == "comment":
        verb = _VERB[draw.pick(("voyager", "travailler", "venir"))]
    return _wh(draw, word, meaning, _setting(draw, subject(draw, verb), verb))


def what_question(draw: Draw) -> Sentence:
    """Qu'est-ce que tu manges ? -> What are you eating?"""
    verb = draw.pick(tuple(v for v in _TRANSITIVE if v.french not in ("appeler", "aider", "inviter", "avoir", "faire")))
    clause = _setting(draw, subject(draw, verb), verb)._replace(negation="", adverb=("", ""))
    clause = clause._replace(habitual=clause.tail in _HABITS)
    return "qu'est-ce " + french.elide("que", french.statement(clause)), f"what {english.question(clause)}", "?"


def who_question(draw: Draw) -> Sentence:
    """Qui a mangé le gâteau ? -> Who ate the cake?"""
    who = NounPhrase("qui", "who")
    verb = draw.pick(_TRANSITIVE)
    clause = _setting(draw, who, verb, "present" if "generic" in verb.flags else "")
    clause = clause._replace(negation="", habitual=clause.habitual and not clause.negation)
    what = _object(draw, clause)
    return _say(draw, clause._replace(tail=_both((what.french, what.english), clause.tail)), 0)[:2] + ("?",)


def how_many(draw: Draw) -> Sentence:
    """Combien de livres est-ce que tu as ? -> How many books do you have?"""
    verb = draw.pick(tuple(v for v in _TRANSITIVE if "generic" not in v.flags and v.french != "connaître"))
    nouns = tuple(n for n in _OBJECTS[verb.french] if n.mass or "number" in DETERMINERS["all"][n][0])
    if not nouns:
        return transitive(draw)
    noun = draw.pick(nouns)
    draw.combinations.append(("object", verb.french, noun.french))
    who = pronoun_subject(draw)
    clause = Clause(who, verb, draw.weighted(_TENSES_OF[verb.french]))
    if clause.tense == "past":  # the participle would have to agree: combien de pommes as-tu mangées
        clause = clause._replace(clitic=Clitic("", "", noun.feminine, not noun.mass))
    name_fr, name_en = (
        (noun.french, noun.english) if noun.mass else (french.plural(noun.french), english.plural(noun.english))
    )
    question = "est-ce " + french.elide("que", french.statement(clause))
    if who.person != 0 and draw.chance(0.5):
        question = french.inversion(clause)
    much = "much" if noun.mass else "many"
    return f"combien {french.elide('de', name_fr)} {question}", f"how {much} {name_en} {english.question(clause)}", "?"


def order(draw: Draw) -> Sentence:
    """Mange ta soupe ! Ne me regarde pas ! Ouvrons la porte !"""
    person = draw.pick((1, 1, 4, 4, 3))
    who = NounPhrase("", "", person, person)
    negation = "pas" if draw.chance(0.25) else ""
    if draw.chance(0.3):
        verb = draw.pick(tuple(v for v in _HUMAN if v.aspect == "action" and v.french != "dessiner"))
        who = who._replace(person=1 if person == 3 else person)
        pool = _DATIVE if "dative" in verb.flags else _ACCUSATIVE[:2] + _ACCUSATIVE[4:6] + _ACCUSATIVE[8:]
        clitic = draw.pick(tuple(c for c in pool if c.french not in (*_SECOND, "le", "la")))
        clause = Clause(who, verb, "present", negation, clitic)
    else:
        clause = Clause(who, draw.pick(_ORDERED), "present", negation)
        what = _object(draw, clause, "ordered")
        clause = clause._replace(tail=(what.french, what.english))
    return french.imperative(clause), english.imperative(clause), "!"


def reported(draw: Draw) -> Sentence:
    """Je sais que tu m'aimes. -> I know that you love me."""
    opening = draw.pick((("savoir", "know"), ("penser", "think"), ("dire", "say")))
    speaker = pronoun_subject(draw)
    main = Clause(speaker, Verb(opening[0], opening[1], "state"), "present")
    inner_fr, inner_en, mark = draw.pick((transitive, object_pronoun, intransitive, mood))(draw)
    other_you = {"tu": "vous ", "vous": "tu "}.get(speaker.french, "?")  # vous savez que tu ...: two kinds of you
    while mark != "." or inner_fr.startswith(other_you):
        draw.combinations.clear()
        inner_fr, inner_en, mark = draw.pick((transitive, object_pronoun, intransitive, mood))(draw)
    said = f"{french.statement(main)} {french.elide('que', inner_fr)}"
    return said, f"{english.statement(main)} that {inner_en}", "."


CONSTRUCTIONS: dict[Callable[[Draw], Sentence], float] = {
    transitive: 30, object_pronoun: 12, intransitive: 7, motion: 5, talk: 2, give: 6, mood: 5, quality: 6,
    comparison: 3, idiom: 3, profession: 1.5, there_is: 5, whereabouts: 4, where: 3, when_and_why: 3,
    what_question: 2.5, who_question: 2.5, how_many: 2.5, order: 4, reported: 3,
}  # fmt: skip
_CHOICE = Weighted.of(CONSTRUCTIONS)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def sentence(draw: Draw, bare: float = 0.08) -> tuple[str, str]:
    """One sentence (French, English), capital first; with chance `bare` both lack the final mark.

    What it combines is in `draw.combinations` afterwards.
    """
    draw.combinations.clear()
    fr, en, mark = draw.weighted(_CHOICE)(draw)
    if draw.chance(bare):
        return _capital(fr), _capital(en)
    return f"{_capital(fr)}{mark if mark == '.' else ' ' + mark}", f"{_capital(en)}{mark}"
