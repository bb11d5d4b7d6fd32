"""Text to token ids and back: byte-level BPE, thin over the `tokenizers` library.

Every text is a sequence of bytes and every byte is a token, so nothing is unknown and encoding then decoding gives the
text back exactly. The specials `<pad>`, `<s>` and `</s>` are ids, never spellings: a text that contains "<s>" is
encoded as these three characters.
"""

from __future__ import annotations

import codecs
import functools
import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from regard.errors import InputError
from regard.files import atomic_write, write_text

PAD, START, END = "<pad>", "<s>", "</s>"
# A "word" of Chinese or of a long number can be a whole paragraph; BPE's cost and memory grow with the word.
LONGEST_PIECE = 48


class Tokenizer:
    """Encodes and decodes; made by `train` or `load`."""

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        inner.encode_special_tokens = True  # "<s>" in a text is text
        inner.no_padding()
        inner.no_truncation()
        self._inner = inner
        self.vocab_size: int = inner.get_vocab_size()
        self.pad_id, self.start_id, self.end_id = (self._special(t) for t in (PAD, START, END))
        self._specials = {self.pad_id, self.start_id, self.end_id}

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return _from_text, (self._inner.to_str(),)  # the library's own copy forgets `encode_special_tokens`

    def _special(self, token: str) -> int:
        found = self._inner.token_to_id(token)
        if found is None:
            raise InputError(f"the tokenizer has no token {token!r}; train one with `Tokenizer.train`")
        return int(found)

    # ---- making one ----

    @staticmethod
    def train(texts: Iterable[str], vocab_size: int, lowercase: bool = False) -> Tokenizer:
        """Learns the merges of a byte-level BPE (arXiv:1508.07909) from texts; their order does not matter.

        Args:
            vocab_size: at most this many tokens, among them 3 specials and the 256 bytes.
            lowercase: fold texts to lower case first (then decoding gives lower case back).
        """
        if vocab_size < 259:
            raise InputError(f"tokenizer.vocab_size: got {vocab_size}; 3 specials and 256 bytes need at least 259")
        inner = tokenizers.Tokenizer(models.BPE())
        if lowercase:
            inner.normalizer = normalizers.Lowercase()
        bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        bounded = pre_tokenizers.Split(Regex(f".{{1,{LONGEST_PIECE}}}"), "isolated")
        inner.pre_tokenizer = pre_tokenizers.Sequence([bytes_, bounded])
        inner.decoder = decoders.ByteLevel()
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size, special_tokens=[PAD, START, END], initial_alphabet=alphabet, show_progress=False
        )
        inner.train_from_iterator(texts, trainer)
        return Tokenizer(inner)

    @staticmethod
    def load(folder: str | os.PathLike[str], name: str = "tokenizer.json") -> Tokenizer:
        """Reads a tokenizer file.

        Raises:
            InputError: no such file, or not a tokenizer.
        """
        path = Path(folder) / name
        try:
            return Tokenizer(tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8-sig")))
        except FileNotFoundError:
            raise InputError(f"{path}: no such file; the folder has no tokenizer") from None
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
        except Exception as error:  # the library raises bare Exception
            raise InputError(f"{path}: not a tokenizer file ({error}); get it again, or train a tokenizer") from None

    def save(self, folder: str | os.PathLike[str], name: str = "tokenizer.json") -> None:
        """Writes `name` and, beside the main one, the small tokenizer_config.json that other libraries read."""
        with atomic_write(Path(folder) / name) as path:
            self._inner.save(str(path))
        if name == "tokenizer.json":
            config = {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "pad_token": PAD,
                "bos_token": START,
                "eos_token": END,
            }
            write_text(Path(folder) / "tokenizer_config.json", json.dumps(config, indent=1) + "\n")

    def fingerprint(self) -> str:
        """SHA-256 of everything that decides what the tokenizer does."""
        return hashlib.sha256(self._inner.to_str().encode("utf-8")).hexdigest()

    # ---- using it ----

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without specials; InputError for half a surrogate pair, which is no text."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts, in parallel."""
        try:
            return [e.ids for e in self._inner.encode_batch(list(texts), add_special_tokens=False)]
        except TypeError:
            for text in texts:
                try:
                    text.encode("utf-8")
                except UnicodeEncodeError as error:
                    problem = f"a lone surrogate at character {error.start} of {text[:40]!r}"
                    raise InputError(f"text cannot be encoded: {problem}; read it as UTF-8") from None
            raise

    def decode(self, ids: Iterable[int], skip_special: bool = True) -> str:
        """The text of ids; bytes that form no character become U+FFFD."""
        return b"".join(self._bytes(i, skip_special) for i in ids).decode("utf-8", "replace")

    def stream(self, skip_special: bool = True) -> Stream:
        """A decoder that takes one id at a time."""
        return Stream(self, skip_special)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """One readable label an id: spaces as ▁, parts of characters as \\xNN, specials by name."""
        labels = []
        for i in ids:
            raw = self._bytes(i, skip_special=False)
            text = raw.decode("utf-8", "backslashreplace")
            labels.append(text.replace(" ", "▁").replace("\n", "⏎").replace("\t", "⇥"))
        return labels

    def _bytes(self, i: int, skip_special: bool) -> bytes:
        if i in self._specials:
            return b"" if skip_special else (self._inner.id_to_token(i) or "").encode()
        token = self._inner.id_to_token(i) if i >= 0 else None
        if token is None:
            raise InputError(f"token id {i} is not in the vocabulary of {self.vocab_size}")
        table = _byte_of_letter()
        return bytes(table[letter] for letter in token)


class Stream:
    """Decodes id by id. The chunks joined are the text of all ids; half a character is held back until it is whole."""

    def __init__(self, tokenizer: Tokenizer, skip_special: bool) -> None:
        self._tokenizer, self._skip = tokenizer, skip_special
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, i: int) -> str:
        """The text that is certain now."""
        return self._decoder.decode(self._tokenizer._bytes(i, self._skip))

    def finish(self) -> str:
        """What was held back: U+FFFD for a character that was cut, else nothing."""
        return self._decoder.decode(b"", final=True)


def _from_text(text: str) -> Tokenizer:
    return Tokenizer(tokenizers.Tokenizer.from_str(text))


@functools.cache
def _byte_of_letter() -> dict[str, int]:
    """The printable letter that stands for each byte in a byte-level vocabulary (as GPT-2 has them), reversed."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(256 + n): b for n, b in enumerate(others)}
