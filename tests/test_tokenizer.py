"""The tokenizer: exact round trips, special tokens that no text can spell, streaming, and files."""

import copy
import json
import pickle
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import InputError
from regard.tokenizer import LONGEST_PIECE, Tokenizer
from regard.train.config import ModelConfig

TEXTS = [
    "the cat sat on the mat, the cat sat on the hat",
    "Le chat dort sur le tapis ; l'été, il dort dehors.",
    "春眠不覺曉，處處聞啼鳥。夜來風雨聲，花落知多少。",
    "<s> and </s> and <pad> are only text <s></s><pad>",
]
TOKENIZER = Tokenizer.train(TEXTS * 20, 400)
# Characters from places where tokenizers go wrong, beside hypothesis' own choice.
PARTS = st.sampled_from(
    [" ", "   ", "\t", "\r\n", "\n", "<s>", "</s>", "<pad>", "👩‍👩‍👧", "e\u0301", "\u2028", "\ufffd", "中文", "\0"]
)
ANY_TEXT = st.lists(st.one_of(PARTS, st.text(max_size=8)), max_size=8).map("".join)


@given(ANY_TEXT)
@settings(max_examples=300, deadline=None, derandomize=True, database=None)
def test_any_text_comes_back_and_spells_no_special_token(text):
    ids = TOKENIZER.encode(text)
    assert TOKENIZER.decode(ids) == text
    assert not set(ids) & {TOKENIZER.pad_id, TOKENIZER.start_id, TOKENIZER.end_id}
    assert TOKENIZER.encode_batch([text, "x"]) == [ids, TOKENIZER.encode("x")]


def test_fault_D5():
    """Leading spaces, runs of spaces, tabs and CRLF are kept, and the same in every context."""
    for n in range(1, 100):
        for space in (" ", "\t", "\r\n", " \t"):
            text = f"hello{space * n}world"
            assert TOKENIZER.decode(TOKENIZER.encode(text)) == text
    for text in ("   x", " ", "x   ", "\r\n\r\n", ""):
        assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


@given(st.lists(st.integers(0, TOKENIZER.vocab_size - 1), max_size=30))
@settings(max_examples=300, deadline=None, derandomize=True, database=None)
def test_stream_equals_decode_for_any_ids(ids):
    for skip in (True, False):
        stream = TOKENIZER.stream(skip_special=skip)
        chunks = [stream.push(id) for id in ids]
        assert "".join(chunks) + stream.finish() == TOKENIZER.decode(ids, skip_special=skip)


def test_fault_D1():
    """A character made of several tokens appears once it is whole, never in parts."""
    bare = Tokenizer.train(["x"], 259)  # no merges: a token is a byte
    ids = bare.encode("a😀中é")
    stream = bare.stream()
    assert len(ids) == 10
    assert [stream.push(id) for id in ids] == ["a", "", "", "", "😀", "", "", "中", "", "é"]
    assert stream.finish() == ""


def test_fault_D3():
    """Ids cut inside a character: the clean prefix, and one replacement for the rest."""
    bare = Tokenizer.train(["x"], 259)
    ids = bare.encode("ok 😀")
    for cut in (1, 2, 3):
        stream = bare.stream()
        text = "".join(stream.push(id) for id in ids[:-cut])
        assert (text, stream.finish()) == ("ok ", "\ufffd")
        assert bare.decode(ids[:-cut]) == "ok \ufffd"


def test_fault_D8():
    """Training does not depend on the order of the texts, and ties are broken by one rule."""
    rng = random.Random(0)
    words = ["".join(rng.choice("abcdé中 ") for _ in range(12)) for _ in range(300)]
    prints = set()
    for _ in range(3):
        rng.shuffle(words)
        prints.add(Tokenizer.train(words, 340).fingerprint())
    assert len(prints) == 1
    merges = []
    for text in ("aaabbbccccdddd", "bbbaaaddddcccc"):
        made = Tokenizer.train([text], 263)
        merges.append([made.decode([id]) for id in range(259, 263)])
    # Both "cc" and "dd" occur three times and "aa" and "bb" twice: the first letter of the alphabet goes first.
    assert merges[0][:2] == merges[1][:2] == ["cc", "dd"]


def test_vocabulary_is_bytes_specials_and_merges():
    assert (TOKENIZER.pad_id, TOKENIZER.start_id, TOKENIZER.end_id) == (0, 1, 2)
    assert Tokenizer.train(TEXTS * 20, 300).vocab_size == 300
    small = Tokenizer.train(["x"], 1000)
    assert small.vocab_size == 259  # a single letter: nothing to merge
    assert sorted(small.encode("".join(map(chr, range(128))))) == sorted(
        set(small.encode("".join(map(chr, range(128)))))
    )
    with pytest.raises(InputError, match=r"got 258;.*at least 259"):
        Tokenizer.train(TEXTS, 258)


def test_special_tokens_are_ids_only():
    ids = TOKENIZER.encode("<s>a</s><pad>")
    assert not set(ids) & {0, 1, 2}
    assert TOKENIZER.decode([1, *TOKENIZER.encode("cat"), 2, 0]) == "cat"
    assert TOKENIZER.decode([1, *TOKENIZER.encode("cat"), 2, 0], skip_special=False) == "<s>cat</s><pad>"


def test_merges_shorten_text_like_the_training_texts():
    assert TOKENIZER.pieces(TOKENIZER.encode("the cat")) == ["the", "▁cat"]


def test_pieces_are_readable():
    bare = Tokenizer.train(["x"], 259)
    assert bare.pieces([1, *bare.encode(" a\n\té")]) == ["<s>", "▁", "a", "⏎", "⇥", "\\xc3", "\\xa9"]


def test_lowercase_folds_and_is_saved(tmp_path):
    folded = Tokenizer.train(["Le Chat Dort"], 300, lowercase=True)
    assert folded.decode(folded.encode("Le CHAT É")) == "le chat é"
    folded.save(tmp_path)
    assert Tokenizer.load(tmp_path).decode(folded.encode("LE")) == "le"


def test_fault_D10(shared_data):
    """Text without spaces is cut into bounded pieces, also in the middle of a paragraph of one "word"."""
    text = (shared_data / "chinese_poems" / "poetry_laugh12321.txt").read_text(encoding="utf-8-sig")
    word = "".join(c for c in text if "\u4e00" <= c <= "\u9fff")
    made = Tokenizer.train([word], 1000)
    longest = max(len(made.decode([id]).encode()) for id in range(made.vocab_size))
    assert 3 <= longest <= LONGEST_PIECE
    repeated = Tokenizer.train(["中" * 20_000], 400)  # without the bound, merges would double up to the whole text
    assert max(len(repeated.decode([id]).encode()) for id in range(repeated.vocab_size)) <= LONGEST_PIECE
    assert made.decode(made.encode(word)) == word


def test_fault_D11(tmp_path):
    """Files are UTF-8 whatever the system says; a byte order mark is tolerated."""
    TOKENIZER.save(tmp_path)
    path = tmp_path / "tokenizer.json"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert Tokenizer.load(tmp_path).encode("春眠 été") == TOKENIZER.encode("春眠 été")


def test_fault_D13():
    """A model that is too small for the tokenizer is refused before training, with both numbers."""
    sizes = {"hidden_size": 16, "layers": 1, "heads": 2, "intermediate_size": 32}
    from regard.spec import dump

    spec = dump(ModelConfig(arguments=sizes).make(65))
    with pytest.raises(InputError, match=r"\(65, 65\).*\(3003, 3003\)"):
        ModelConfig(spec=spec).make(3003)


def test_save_and_load_keep_everything(tmp_path):
    TOKENIZER.save(tmp_path)
    TOKENIZER.save(tmp_path, "source_tokenizer.json")
    for name in ("tokenizer.json", "source_tokenizer.json"):
        again = Tokenizer.load(tmp_path, name)
        assert again.fingerprint() == TOKENIZER.fingerprint()
        assert again.encode("the <s> cat 😀") == TOKENIZER.encode("the <s> cat 😀")
    config = json.loads((tmp_path / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert (config["pad_token"], config["bos_token"], config["eos_token"]) == ("<pad>", "<s>", "</s>")
    assert Tokenizer.train(TEXTS, 300).fingerprint() != TOKENIZER.fingerprint()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"version": "1.0"}', b"\xff\xfe\x00"])
def test_damaged_files_are_named(tmp_path, content):
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(InputError) as caught:
        Tokenizer.load(tmp_path)
    assert str(tmp_path / "tokenizer.json") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_files_and_tokens_are_named(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        Tokenizer.load(tmp_path)
    TOKENIZER.save(tmp_path)
    path = tmp_path / "tokenizer.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"<pad>"', '"[PAD]"'), encoding="utf-8")
    with pytest.raises(InputError, match="'<pad>'"):
        Tokenizer.load(tmp_path)


def test_ids_out_of_range_are_refused():
    with pytest.raises(InputError, match=f"10000.*{TOKENIZER.vocab_size}"):
        TOKENIZER.decode([10_000])


def test_cut_file_is_an_input_error(tmp_path):
    TOKENIZER.save(tmp_path)
    path = tmp_path / "tokenizer.json"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(InputError, match="not a tokenizer file"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))], ids=["copy", "pickle"])
def test_copies_encode_alike(duplicate):
    assert duplicate(TOKENIZER).encode("<s>") == TOKENIZER.encode("<s>")


def test_negative_ids_are_refused():
    with pytest.raises(InputError, match="-1"):
        TOKENIZER.decode([-1])


def test_half_a_character_is_refused():
    with pytest.raises(InputError, match="surrogate"):
        TOKENIZER.encode("a\ud800b")
