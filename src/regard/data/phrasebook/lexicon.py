"""The words of the phrasebook: one line a word, with the classes that keep sentences sane.

A noun's *tags* say what can be done with it (`food`, `read`, `wash` ...); a verb lists the tags of nouns it takes as
objects; an adjective lists the tags of nouns it can describe. `ouvrir` meets `boîte` because both carry the tag `open`.
Every word here was chosen so that it has one English translation wherever the grammar can put it.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ADJECTIVES", "NOUNS", "VERBS", "Adjective", "Noun", "Verb", "adjectives_of", "objects_of"]


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun: French lemma, gender, English lemma, tags. Plurals are made by `french.plural` and `english.plural`."""

    french: str
    feminine: bool
    english: str
    tags: frozenset[str]

    @property
    def mass(self) -> bool:
        """Uncountable: `du pain`, `some bread`; no plural, no numbers."""
        return "mass" in self.tags


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb: infinitive, English base form (with its particle), aspect, what it takes.

    aspect: how its present is said in English: "state" (he loves), "action" (he is eating), "event" (it has none).
    objects: tags of the nouns it takes as direct object (empty: intransitive). flags: "generic" (les chats -> cats),
    "human" (takes object pronouns: je te vois), "animal" (animals can do it), "etre" (auxiliary être), "reflexive",
    "noperfect" (no passé composé), "dative" (its object is introduced by à), "give" (something to someone), "place".
    """

    french: str
    english: str
    aspect: str
    objects: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Adjective:
    """An adjective: French masculine, English, English comparative, place, tags of the nouns it describes.

    before: stands before the noun. second: may follow a noun that already has an adjective before (colours, origins).
    """

    french: str
    english: str
    comparative: str
    before: bool
    second: bool
    tags: frozenset[str]


_NOUNS = """
    garçon m boy person draw          | fille f girl person draw           | homme m man person draw
    femme f woman person draw         | enfant m child person poss nosex   | voisin m neighbor person poss
    voisine f neighbor person poss    | professeur m teacher person poss nosex | médecin m doctor person poss nosex
    ami m friend person kin           | amie f friend person kin           | frère m brother person kin
    sœur f sister person kin          | père m father person kin one       | mère f mother person kin one
    chat m cat animal pet draw        | chien m dog animal pet draw wash   | cheval m horse animal draw
    oiseau m bird animal draw         | vache f cow animal draw            | souris f mouse animal
    lapin m rabbit animal pet draw    | mouton m sheep animal draw         | canard m duck animal draw
    pomme f apple food cut wash count | orange f orange food cut count     | œuf m egg food count
    tomate f tomato food cut wash count | gâteau m cake food cut make finish count | haricot m bean food count
    fraise f strawberry food wash count | carotte f carrot food cut wash count | bonbon m candy food count
    pain m bread food cut mass        | viande f meat food cut mass cook   | soupe f soup food make finish mass hot
    riz m rice food cook mass         | fromage m cheese food cut mass     | chocolat m chocolate food mass
    eau f water drink mass hot        | lait m milk drink mass hot         | café m coffee drink make mass hot
    thé m tea drink make mass hot     | vin m wine drink mass              | argent m money want mass
    musique f music listen mass
    livre m book thing small read write finish close color        | lettre f letter thing small read write finish send
    journal m newspaper thing small read                          | histoire f story read write listen tale
    chanson f song write listen sing tale                         | film m movie watch tale
    photo f photo thing small send                                | stylo m pen thing small color
    clé f key thing small                                         | sac m bag thing small heavy open close color
    boîte f box thing small heavy open close color                      | fleur f flower thing small draw color
    chapeau m hat thing small wear color                          | manteau m coat thing small wear wash color
    chemise f shirt thing small wear wash color                   | robe f dress thing small wear wash color
    montre f watch thing small wear repair                        | parapluie m umbrella thing small open close color
    couteau m knife thing small wash                              | verre m glass thing small wash break
    assiette f plate thing small wash break color                 | lampe f lamp thing small repair break
    ordinateur m computer thing small heavy repair                      | cadeau m gift thing small heavy open send
    chaise f chair thing furniture repair color                   | table f table thing furniture repair wash
    lit m bed thing furniture                                     | voiture f car thing big drive wash repair color
    vélo m bike thing big wash repair color                       | bus m bus transit drive big
    train m train transit big                                     | porte f door open close repair color
    fenêtre f window open close break wash repair                 | arbre m tree big draw outdoor
    maison f house big draw building color                        | école f school place building bare
    marché m market place                                         | gare f station place building
    plage f beach place                                           | parc m park place
    jardin m garden place room                                    | cuisine f kitchen room
    chambre f bedroom room                                        | hôpital m hospital place building
    bureau m office place room                                    | magasin m store place building room
    restaurant m restaurant place building                        | musée m museum place building
    hôtel m hotel place building                                  | village m village place2
    ville f city place2
"""

# French : English : aspect : object tags : flags
_VERBS = """
    aimer : love : state : food drink thing animal person tale read listen building place : generic human
    détester : hate : state : food drink wear animal person tale listen : generic human
    préférer : prefer : state : food drink wear animal tale color : generic
    vouloir : want : state : food drink thing pet want : noperfect
    avoir : have : state : thing food drink pet want : noperfect
    voir : see : state : thing animal person building transit place outdoor : human animal
    connaître : know : state : person tale place2 : human noperfect
    comprendre : understand : state : tale : human
    manger : eat : action : food : animal
    boire : drink : action : drink : animal
    acheter : buy : action : food drink thing pet
    vendre : sell : action : food drink thing building animal
    regarder : look at : action : small animal person building transit color : human animal
    chercher : look for : action : thing animal person food building : human animal
    écouter : listen to : action : listen person : human
    entendre : hear : state : listen animal person transit : human animal
    aider : help : action : person : human
    attendre : wait for : action : person transit : human
    appeler : call : action : person pet : human
    inviter : invite : action : person : human
    porter : wear : action : wear
    lire : read : action : read
    écrire : write : action : write
    ouvrir : open : action : open
    fermer : close : action : close open
    laver : wash : action : wash
    réparer : repair : action : repair
    choisir : choose : action : food thing pet tale
    finir : finish : action : finish
    préparer : prepare : action : cook make
    faire : make : action : make
    couper : cut : action : cut
    conduire : drive : action : drive
    dessiner : draw : action : draw : human
    prendre : take : action : small food transit
    perdre : lose : event : small want
    trouver : find : event : small food animal want : human animal
    oublier : forget : event : small person tale : human
    casser : break : event : break
    donner : give : action : small food drink pet want : give
    montrer : show : action : small building drive place : give
    envoyer : send : action : send want : give
    apporter : bring : action : small food drink : give
    prêter : lend : action : small drive want : give
    parler : talk to : action : person : dative human
    répondre : answer : action : person : dative human
    dormir : sleep : action : : animal place
    travailler : work : action : : place
    jouer : play : action : : animal place
    chanter : sing : action : sing : place
    danser : dance : action : : place
    courir : run : action : : animal
    nager : swim : action : : animal
    rire : laugh : action
    pleurer : cry : action
    voyager : travel : action
    aller : go : action : : etre motion
    venir : come : action : : etre motion animal
    arriver : arrive : action : : etre animal
    partir : leave : action : : etre animal
    sortir : go out : action : : etre animal
    rester : stay : action : : etre place
    tomber : fall : event : : etre animal
    habiter : live : state : : noperfect home
    lever : get up : state : : reflexive
    réveiller : wake up : state : : reflexive
    coucher : go to bed : state : : reflexive
    reposer : rest : action : : reflexive place
    amuser : have fun : action : : reflexive place
    promener : take a walk : action : : reflexive
"""

# French : English : comparative : b(efore) or a(fter), 2 = may be the second : tags
_ADJECTIVES = """
    petit : small : smaller : b : thing animal building outdoor place2
    grand : big : bigger : b : big furniture animal building place2
    beau : beautiful : more beautiful : b : wear animal color outdoor building
    nouveau : new : newer : b : thing poss tale transit building
    vieux : old : older : b : thing animal building outdoor transit
    bon : good : better : b : food drink tale read
    mauvais : bad : worse : b : tale food
    jeune : young : younger : b : person pet
    joli : pretty : prettier : b : wear color building
    noir : black : blacker : a2 : color animal wear
    blanc : white : whiter : a2 : color animal wear
    rouge : red : redder : a2 : color wear
    vert : green : greener : a2 : color wear
    bleu : blue : bluer : a2 : color wear
    jaune : yellow : yellower : a2 : color
    gris : gray : grayer : a2 : color animal
    français : French : more French : a2 : food read tale drive transit
    anglais : English : more English : a2 : read tale drive transit
    italien : Italian : more Italian : a2 : food read tale drive wear
    rond : round : rounder : a : furniture
    propre : clean : cleaner : a : wash room
    sale : dirty : dirtier : a : wash room
    lourd : heavy : heavier : a : furniture heavy
    cher : expensive : more expensive : a : thing food building
    rapide : fast : faster : a : drive transit
    chaud : hot : hotter : a : hot
    froid : cold : colder : a : hot
    délicieux : delicious : more delicious : a : food
    intéressant : interesting : more interesting : a : read tale
    utile : useful : more useful : a : thing
    intelligent : intelligent : more intelligent : a : person pet
    gentil : kind : kinder : a : person
    honnête : honest : more honest : a : person
    sérieux : serious : more serious : a : person
    célèbre : famous : more famous : a : tale building person
"""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _read_nouns() -> tuple[Noun, ...]:
    rows = [cell.split() for line in _NOUNS.strip().splitlines() for cell in line.split("|")]
    return tuple(Noun(row[0], row[1] == "f", row[2], frozenset(row[3:])) for row in rows)


def _read_verbs() -> tuple[Verb, ...]:
    rows = [[cell.strip() for cell in line.split(":")] + ["", ""] for line in _VERBS.strip().splitlines()]
    return tuple(Verb(row[0], row[1], row[2], _words(row[3]), _words(row[4])) for row in rows)


def _read_adjectives() -> tuple[Adjective, ...]:
    rows = [[cell.strip() for cell in line.split(":")] for line in _ADJECTIVES.strip().splitlines()]
    return tuple(Adjective(r[0], r[1], r[2], r[3] == "b", r[3] == "a2", _words(r[4])) for r in rows)


NOUNS: tuple[Noun, ...] = _read_nouns()
VERBS: tuple[Verb, ...] = _read_verbs()
ADJECTIVES: tuple[Adjective, ...] = _read_adjectives()

# Adjectives of people, used after être only (predicates): French, English, comparative.
MOODS: tuple[Adjective, ...] = tuple(
    Adjective(french, english, comparative, False, False, _words("person"))
    for french, english, comparative in (
        ("grand", "tall", "taller"), ("petit", "short", "shorter"), ("jeune", "young", "younger"),
        ("fort", "strong", "stronger"), ("riche", "rich", "richer"), ("heureux", "happy", "happier"),
        ("triste", "sad", "sadder"), ("fatigué", "tired", "more tired"), ("malade", "sick", "sicker"),
        ("gentil", "kind", "kinder"), ("intelligent", "intelligent", "more intelligent"),
        ("sérieux", "serious", "more serious"), ("honnête", "honest", "more honest"), ("prêt", "ready", "more ready"),
        ("occupé", "busy", "busier"),
    )
)  # fmt: skip

NAMES: tuple[tuple[str, bool], ...] = (
    ("Paul", False), ("Pierre", False), ("Louis", False), ("Thomas", False), ("Antoine", False),
    ("Marie", True), ("Sophie", True), ("Julie", True), ("Alice", True), ("Emma", True),
)  # fmt: skip

# avoir + noun = be + adjective
IDIOMS: tuple[tuple[str, str], ...] = (
    ("faim", "hungry"), ("soif", "thirsty"), ("froid", "cold"), ("chaud", "hot"), ("peur", "afraid"),
    ("sommeil", "sleepy"), ("raison", "right"), ("tort", "wrong"), ("de la chance", "lucky"),
)  # fmt: skip

PROFESSIONS: tuple[tuple[str, str], ...] = (
    ("médecin", "doctor"), ("professeur", "teacher"), ("journaliste", "journalist"), ("artiste", "artist"),
    ("pilote", "pilot"), ("dentiste", "dentist"),
)  # fmt: skip

NUMBERS: tuple[tuple[str, str], ...] = (
    ("deux", "two"), ("trois", "three"), ("quatre", "four"), ("cinq", "five"), ("six", "six"), ("sept", "seven"),
    ("huit", "eight"), ("neuf", "nine"), ("dix", "ten"), ("onze", "eleven"), ("douze", "twelve"), ("vingt", "twenty"),
)  # fmt: skip

# Names of towns and countries: French phrase (both "to" and "in"), English name.
TOWNS: tuple[tuple[str, str], ...] = (
    ("à Paris", "Paris"), ("à Londres", "London"), ("à Rome", "Rome"), ("en France", "France"),
    ("en Italie", "Italy"), ("au Canada", "Canada"), ("au Japon", "Japan"), ("aux États-Unis", "the United States"),
)  # fmt: skip

# Whole phrases of every day. "Je t'aime." is here, and so always in the training part.
PHRASES: tuple[tuple[str, str], ...] = (
    ("Je t'aime.", "I love you."), ("Je vous aime.", "I love you."), ("Bonjour !", "Hello!"),
    ("Bonsoir !", "Good evening!"), ("Bonne nuit !", "Good night!"), ("Au revoir !", "Goodbye!"),
    ("À bientôt !", "See you soon!"), ("À demain !", "See you tomorrow!"), ("Merci.", "Thank you."),
    ("Merci beaucoup.", "Thank you very much."), ("De rien.", "You are welcome."), ("S'il vous plaît.", "Please."),
    ("S'il te plaît.", "Please."), ("Oui.", "Yes."), ("Non.", "No."), ("Peut-être.", "Maybe."),
    ("D'accord.", "All right."), ("Bien sûr.", "Of course."), ("Excusez-moi.", "Excuse me."),
    ("Pardon.", "Sorry."), ("Je suis désolé.", "I am sorry."), ("Je suis désolée.", "I am sorry."),
    ("Comment allez-vous ?", "How are you?"), ("Comment vas-tu ?", "How are you?"), ("Ça va ?", "How is it going?"),
    ("Ça va bien.", "It is going well."), ("Très bien, merci.", "Very well, thank you."), ("Et toi ?", "And you?"),
    ("Et vous ?", "And you?"), ("Comment t'appelles-tu ?", "What is your name?"),
    ("Comment vous appelez-vous ?", "What is your name?"), ("Enchanté.", "Nice to meet you."),
    ("Enchantée.", "Nice to meet you."), ("Je m'appelle Marie.", "My name is Marie."),
    ("Je m'appelle Paul.", "My name is Paul."), ("Bienvenue !", "Welcome!"), ("Bon voyage !", "Have a good trip!"),
    ("Bon appétit !", "Enjoy your meal!"), ("Bonne chance !", "Good luck!"), ("Félicitations !", "Congratulations!"),
    ("Joyeux anniversaire !", "Happy birthday!"), ("Bonne année !", "Happy New Year!"), ("À l'aide !", "Help!"),
    ("Attention !", "Watch out!"), ("Quelle heure est-il ?", "What time is it?"),
    ("Quel âge as-tu ?", "How old are you?"), ("Quel âge avez-vous ?", "How old are you?"),
    ("Combien ça coûte ?", "How much does it cost?"), ("C'est trop cher.", "It is too expensive."),
    ("Parlez-vous français ?", "Do you speak French?"), ("Parlez-vous anglais ?", "Do you speak English?"),
    ("Je ne comprends pas.", "I do not understand."), ("Je ne sais pas.", "I do not know."),
    ("Pouvez-vous répéter ?", "Can you repeat?"), ("Pouvez-vous m'aider ?", "Can you help me?"),
    ("Qu'est-ce que c'est ?", "What is it?"), ("Qui est-ce ?", "Who is it?"), ("Où sont les toilettes ?",
    "Where is the bathroom?"), ("Il pleut.", "It is raining."), ("Il neige.", "It is snowing."),
    ("Il fait beau.", "The weather is nice."), ("Il fait froid.", "It is cold."), ("Il fait chaud.", "It is hot."),
    ("C'est vrai.", "It is true."), ("C'est faux.", "It is false."), ("Ce n'est pas grave.", "It does not matter."),
    ("Pas de problème.", "No problem."), ("Tu me manques.", "I miss you."), ("Vous me manquez.", "I miss you."),
    ("Embrasse-moi !", "Kiss me!"), ("J'ai besoin de toi.", "I need you."), ("C'est la vie.", "That is life."),
    ("Tout va bien.", "Everything is fine."), ("Je suis d'accord.", "I agree."), ("Allons-y !", "Let's go!"),
    ("Quelle bonne idée !", "What a good idea!"), ("C'est une bonne question.", "It is a good question."),
)  # fmt: skip


def objects_of(verb: Verb) -> tuple[Noun, ...]:
    """The nouns that `verb` takes as its (direct, or à) object, in the order of the table."""
    return tuple(noun for noun in NOUNS if noun.tags & verb.objects)


def adjectives_of(noun: Noun) -> tuple[Adjective, ...]:
    """The adjectives that can stand at `noun`; kinship nouns take none (`ma petite sœur` is not `my small sister`)."""
    return () if "kin" in noun.tags else tuple(a for a in ADJECTIVES if a.tags & noun.tags)
