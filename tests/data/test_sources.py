"""Sources of sentence pairs: what is read, what is left out and told, and errors with file and line."""

import gzip
import json
import sys
import types

import pytest

from regard import data
from regard.data import DataConfig, Pair
from regard.errors import InputError
from regard.values import FieldError, from_dict


def write(folder, **files):
    for name, content in files.items():
        raw = content.encode() if isinstance(content, str) else content
        (folder / name.replace("_", ".")).write_bytes(raw)
    return folder


def config(folder, kind="files", **changes):
    train = {"files": "t.{lang}", "tsv": "t.tsv", "jsonl": "t.jsonl"}[kind]
    return DataConfig(**({"kind": kind, "root": str(folder), "train": train} | changes))


def error(settings):
    """The one line that `load` complains with."""
    with pytest.raises(InputError) as caught:
        data.load(settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


PAIRS = [Pair("Il pleut.", "It rains."), Pair("Été\u2028chaud", "Hot\u2028summer")]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False], ids=["end", "no end"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["plain", "BOM"])
@pytest.mark.parametrize("packed", [False, True], ids=["text", "gzip"])
def test_aligned_files(tmp_path, end, last, mark, packed):
    """Every line end, mark and packing gives the same pairs; U+2028 inside a sentence ends no line."""
    for side, lang in enumerate(("fr", "en")):
        raw = mark + end.join(pair[side] for pair in map(tuple_of, PAIRS)).encode() + (end.encode() if last else b"")
        (tmp_path / f"t.{lang}{'.gz' if packed else ''}").write_bytes(gzip.compress(raw) if packed else raw)
    corpus = data.load(config(tmp_path, train="t.{lang}.gz" if packed else "t.{lang}"))
    assert corpus.train == PAIRS
    assert str(corpus.report) == "train: 2 pairs"


def tuple_of(pair):
    return pair.source, pair.target


def test_fault_D11(tmp_path, monkeypatch):
    """The system's code page plays no part."""
    monkeypatch.setattr("locale.getpreferredencoding", lambda *_: "cp1252")
    write(tmp_path, t_fr="œuf 中\n", t_en="egg €\n")
    assert data.load(config(tmp_path)).train == [Pair("œuf 中", "egg €")]


def test_filters_are_counted_and_leave_tests_alone(tmp_path):
    french = "a\n\na\n  B  \nlong long long long long\nc c c c c c c c c c c c\n"
    english = "x\ny\nx\nY\nx\nd\n"
    write(tmp_path, t_fr=french, t_en=english, e_fr="\na\na\n", e_en="x\nx\nx\n")
    settings = {"valid": "e.{lang}", "test": {"one": "e.{lang}"}, "max_characters": 23, "max_ratio": 1.5}
    corpus = data.load(config(tmp_path, unique=True, lowercase=True, **settings))
    assert corpus.train == [Pair("a", "x"), Pair("b", "y")]
    assert corpus.valid == [Pair("a", "x"), Pair("a", "x")]
    assert corpus.test == {"one": [Pair("", "x"), Pair("a", "x"), Pair("a", "x")]}
    assert str(corpus.report) == (
        "train: 2 pairs (left out: 1 with an empty side, 1 over 23 characters, 1 of unlike lengths, 1 repeated); "
        "valid: 2 pairs (left out: 1 with an empty side); one: 3 pairs"
    )


def test_nothing_left_is_an_error(tmp_path):
    write(tmp_path, t_fr="\n\n", t_en="a\nb\n")
    assert "no pair is left" in error(config(tmp_path)) and "2 with an empty side" in error(config(tmp_path))


def test_file_errors_say_where(tmp_path):
    write(tmp_path, t_fr="a\nb\n", t_en="a\n")
    assert "t.fr has 2 lines" in error(config(tmp_path)) and "t.en has 1" in error(config(tmp_path))
    write(tmp_path, t_en="")
    assert "t.en: the file is empty" in error(config(tmp_path))
    write(tmp_path, t_en=b"a\n\xe9t\xe9\n")
    assert "t.en: line 2" in error(config(tmp_path)) and "not UTF-8" in error(config(tmp_path))
    (tmp_path / "t.en").unlink()
    assert "t.en: no such file" in error(config(tmp_path))
    (tmp_path / "t.en").mkdir()
    assert "t.en: cannot be read" in error(config(tmp_path))


@pytest.mark.parametrize("damage", ["cut", "flipped", "no archive"])
def test_damaged_archives(tmp_path, damage):
    packed = gzip.compress("\n".join(f"sentence {i * i}" for i in range(500)).encode())
    middle = len(packed) // 2
    flipped = packed[:middle] + bytes([packed[middle] ^ 0xFF]) + packed[middle + 1 :]
    raw = {"cut": packed[:middle], "flipped": flipped, "no archive": b"hello"}[damage]
    for lang in ("fr", "en"):
        (tmp_path / f"t.{lang}.gz").write_bytes(raw)
    message = error(config(tmp_path, train="t.{lang}.gz"))
    assert "t.fr.gz" in message and "get the file again" in message or "not UTF-8" in message


def test_tsv_by_number_and_by_name(tmp_path):
    write(tmp_path, t_tsv="Go.\tVa !\tCC-BY\nHi.\tSalut.\tCC-BY\n")
    pairs = data.load(config(tmp_path, "tsv", source="2", target="1")).train
    assert pairs == [Pair("Va !", "Go."), Pair("Salut.", "Hi.")]
    write(tmp_path, t_tsv="english\tfrench\nGo.\tVa !\n\nHi.\tSalut.\n")
    corpus = data.load(config(tmp_path, "tsv", source="french", target="english"))
    assert corpus.train == pairs
    assert str(corpus.report) == "train: 2 pairs (left out: 1 with an empty side)"


def test_tsv_errors_say_where(tmp_path):
    write(tmp_path, t_tsv="a\tb\nc\n")
    assert "t.tsv: line 2: 1 columns, number 2 is needed" in error(config(tmp_path, "tsv", source="1", target="2"))
    assert "line 1: no column 'fr'; it has a, b" in error(config(tmp_path, "tsv"))


def test_json_lines(tmp_path):
    rows = [{"translation": {"fr": "Va !", "en": "Go."}}, {"translation": {"fr": "Salut.", "en": "Hi."}}]
    write(tmp_path, t_jsonl="\n".join(map(json.dumps, rows)))
    keys = {"source": "translation.fr", "target": "translation.en"}
    assert data.load(config(tmp_path, "jsonl", **keys)).train == [Pair("Va !", "Go."), Pair("Salut.", "Hi.")]
    assert "line 1: no text under 'translation.de'" in error(
        config(tmp_path, "jsonl", **keys | {"source": "translation.de"})
    )
    write(tmp_path, t_jsonl='{"fr": "a", "en": "b"}\n{"fr": ')
    assert "t.jsonl: line 2: not JSON" in error(config(tmp_path, "jsonl"))
    write(tmp_path, t_jsonl='{"fr": "a", "en": 3}\n')
    assert "t.jsonl: line 1: no text under 'en'" in error(config(tmp_path, "jsonl"))


def test_hub_needs_its_extra(monkeypatch):
    settings = DataConfig(kind="hub", root="some/set", train="train")
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert "pip install 'regard[hub]'" in error(settings)
    library = types.ModuleType("datasets")
    library.load_dataset = lambda name, split: [{"fr": f"{name} {split}", "en": "ok"}]
    monkeypatch.setitem(sys.modules, "datasets", library)
    assert data.load(settings).train == [Pair("some/set train", "ok")]

    def fail(name, split):
        raise RuntimeError("offline\nand more")

    library.load_dataset = fail
    assert error(settings) == "data set 'some/set', split 'train': offline"


def test_environment_variables(tmp_path, monkeypatch):
    write(tmp_path, t_fr="a\n", t_en="b\n")
    monkeypatch.setenv("REGARD_DATA", str(tmp_path.parent))
    rooted = config("${REGARD_DATA}/" + tmp_path.name)
    assert data.load(rooted).train == [Pair("a", "b")]
    monkeypatch.delenv("REGARD_DATA")
    assert "environment variable REGARD_DATA is not set" in error(rooted)
    assert data.load(config("${REGARD_DATA:-" + str(tmp_path) + "}")).train == [Pair("a", "b")]


def test_config_is_read_from_a_table():
    table = {
        "kind": "files",
        "root": "x",
        "train": "train.{lang}.gz",
        "test": {"test2016": "test_2016_flickr.{lang}.gz"},
    }
    assert from_dict(DataConfig, table, "data").test == {"test2016": "test_2016_flickr.{lang}.gz"}
    assert from_dict(DataConfig, {}).kind == "phrasebook"


@pytest.mark.parametrize(
    ("table", "where"),
    [
        ({"kind": "files"}, "data.train"),
        ({"kind": "xml"}, "data.kind"),
        ({"kind": "files", "train": "train.fr"}, "data.train"),
        ({"kind": "files", "train": "t.{lang}", "test": {"one": "e.fr"}}, "data.one"),
        ({"max_characters": 0}, "data.max_characters"),
        ({"max_ratio": 0.5}, "data.max_ratio"),
        ({"trian": "t.{lang}"}, "data.trian"),
    ],
)
def test_config_errors_name_the_field(table, where):
    with pytest.raises(FieldError) as caught:
        from_dict(DataConfig, table, "data")
    assert caught.value.path == where


def test_the_phrasebook_is_the_default():
    corpus = data.load(DataConfig(size=1000))
    assert [len(corpus.valid), *map(len, corpus.test.values())] == [12, 25]
    assert len(corpus.train) == 1000 - 12 - 25
    assert corpus == data.load(DataConfig(size=1000))
    assert corpus.train != data.load(DataConfig(size=1000, seed=1)).train


def test_multi30k(shared_data):
    """29,000 German-English captions, three of them repeated."""
    names = {"valid": "val.{lang}.gz", "test": {"test2016": "test_2016_flickr.{lang}.gz"}}
    settings = {"root": str(shared_data / "multi30k"), "source": "de", "target": "en", "train": "train.{lang}.gz"}
    corpus = data.load(DataConfig(kind="files", **settings, **names, unique=True))
    assert str(corpus.report) == "train: 28,997 pairs (left out: 3 repeated); valid: 1,014 pairs; test2016: 1,000 pairs"
    assert corpus.train[0].target == "Two young, White males are outside near many bushes."


def test_column_zero_is_refused(tmp_path):
    write(tmp_path, t_tsv="a\tb\tc\n")
    with pytest.raises((InputError, FieldError)):
        data.load(config(tmp_path, "tsv", source="0", target="1"))


def test_blank_json_lines_are_counted(tmp_path):
    write(tmp_path, t_jsonl='{"fr": "a", "en": "b"}\n\n')
    assert "1 with an empty side" in str(data.load(config(tmp_path, "jsonl")).report)


def test_the_phrasebook_turns_round():
    corpus = data.load(DataConfig(size=1000, source="en", target="fr"))
    assert corpus.train[0] == Pair(*reversed(tuple_of(data.load(DataConfig(size=1000)).train[0])))
