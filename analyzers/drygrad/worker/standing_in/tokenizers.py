"""Tokenizers that are downloaded: one that splits at spaces, with the special tokens of its kind of model."""

from __future__ import annotations

import os
from typing import Any, Callable

from drygrad.worker.run import Run
from drygrad.worker.standing_in.absence import is_absent, library
from drygrad.worker.standing_in.models import model_type
from drygrad.worker.standing_in.words import WORDS

_LONGEST = 512
_BLANK = 20
"""So few tokens are the special ones: newer releases make a tokenizer without its vocabulary."""
_BERT = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
_ROBERTA = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
_ROBERTA.update({"cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"})
_END = "<|endoftext|>"
_GPT: dict[str, str] = dict.fromkeys(("bos_token", "eos_token", "unk_token"), _END)
_T5 = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
_LLAMA = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
_SPECIAL = (("roberta", _ROBERTA), ("bart", _ROBERTA), ("bert", _BERT), ("electra", _BERT), ("t5", _T5), ("gpt", _GPT))
"""The special tokens of kinds of models; those that are not here have none to pad with, as most of them."""


def change_auto(module: Any, run: Run) -> None:
    """Let ``AutoTokenizer.from_pretrained`` go on without the vocabulary."""
    _change(module.AutoTokenizer, run)


def change_base(module: Any, run: Run) -> None:
    """Let ``from_pretrained`` of a kind of tokenizer go on without the vocabulary."""
    _change(module.PreTrainedTokenizerBase, run)


def _change(kind: Any, run: Run) -> None:
    load: Callable[..., Any] = kind.from_pretrained.__func__

    def from_pretrained(cls: Any, name: Any, *inputs: Any, **named: Any) -> Any:
        found = None if os.path.exists(name) else model_type(str(name))
        try:
            made = load(cls, name, *inputs, **named)
            if found is None or len(made) > _BLANK:
                return made
        except (OSError, ValueError, TypeError) as error:
            if found is None or not is_absent(error):
                raise
        run.stands_in(f"the tokenizer of `{name}`", "one that splits at spaces", exact=False)
        return _made(found)

    kind.from_pretrained = classmethod(from_pretrained)


def _made(found: str) -> Any:
    own = library("tokenizers")
    special = next((tokens for part, tokens in _SPECIAL if part in found), _LLAMA)
    numbers = {token: i for i, token in enumerate(dict.fromkeys([*special.values(), *WORDS, "."]))}
    tokenizer = own.Tokenizer(own.models.WordLevel(numbers, special["unk_token"]))
    tokenizer.pre_tokenizer = own.pre_tokenizers.Whitespace()
    first, last = special.get("cls_token"), special.get("sep_token")
    if first and last:
        tokenizer.post_processor = own.processors.TemplateProcessing(
            single=f"{first} $A {last}",
            pair=f"{first} $A {last} $B:1 {last}:1",
            special_tokens=[(first, numbers[first]), (last, numbers[last])],
        )
    names = ["input_ids", "attention_mask"]
    if special is _BERT and found != "distilbert":
        names.insert(1, "token_type_ids")
    return library("transformers").PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=_LONGEST, model_input_names=names, **special
    )
