"""Tokenisers that are learned from text: byte-pair merges and unigram models, by the library `tokenizers`.

Both work on bytes (after Radford 2019), so every text can be written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from weft.data.text.tokeniser import LOST, Tokeniser

SUBWORDS = ("bpe", "unigram")
FURTHER_PARTS = ("normalizer", "post_processor", "added_tokens", "truncation", "padding")  # of a model of `tokenizers`


class Subwords(Tokeniser):
    """Pieces of words learned by byte-pair merges (Sennrich 2016) or a unigram model (Kudo 2018), by `tokenizers`."""

    def __init__(self, kind: str, model: str, marks: Sequence[str] = ()) -> None:
        from tokenizers import Tokenizer

        super().__init__(marks)
        self.kind, self._model = kind, model
        self._tokenizer = Tokenizer.from_str(model)
        self._size: int = self._tokenizer.get_vocab_size()

    @property
    def symbols(self) -> list[str]:
        return [self._tokenizer.decode([i]) for i in range(self._size)]

    def __len__(self) -> int:
        return self.first + self._size

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(list(texts))]

    def _offsets(self, text: str) -> list[tuple[int, int]]:
        return [(begin, end) for begin, end in self._tokenizer.encode(text).offsets]

    def _decode(self, indices: Sequence[int]) -> str:
        parts: list[list[int]] = [[]]
        for index in indices:
            parts.append([]) if index < 0 else parts[-1].append(index)
        return LOST.join(self._tokenizer.decode(part) for part in parts)

    def _content(self) -> dict[str, Any]:
        return {"model": json.loads(self._model)}


def learn_subwords(kind: str, texts: Iterable[str], size: int, marks: Sequence[str]) -> Subwords:
    """A bpe or unigram tokeniser of at most `size` pieces, the 256 bytes among them."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    alphabet = pre_tokenizers.ByteLevel.alphabet()
    model = models.BPE() if kind == "bpe" else models.Unigram()
    trainer_class = {"bpe": trainers.BpeTrainer, "unigram": trainers.UnigramTrainer}[kind]
    trainer = trainer_class(vocab_size=size, show_progress=False, initial_alphabet=alphabet, special_tokens=[])
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainer)
    return Subwords(kind, tokenizer.to_str(), marks)


def check_subwords(model: dict[str, Any]) -> None:
    """Refuse a model of `tokenizers` with other parts than the two that Weft uses, and gaps in its numbers."""
    parts = [model[name]["type"] for name in ("pre_tokenizer", "decoder")]
    if parts != ["ByteLevel", "ByteLevel"] or any(model.get(name) for name in FURTHER_PARTS):
        raise ValueError("it has parts that Weft does not use")
    vocabulary = model["model"]["vocab"]
    if isinstance(vocabulary, dict) and sorted(vocabulary.values()) != list(range(len(vocabulary))):
        raise ValueError("the numbers of its symbols have gaps")
