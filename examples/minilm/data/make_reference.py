#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes reference.json: what the reference implementation says of a few strings and sentences.

    python3 -m venv venv && venv/bin/pip install torch transformers
    venv/bin/python make_reference.py ~/.cache/rapt/minilm >reference.json

Made with transformers 4.57.6, tokenizers 0.22.2 and PyTorch 2.15.0, evaluated in double precision;
how far the same model in single precision is from that goes to standard error.

    pieces      the part of the vocabulary that the strings and sentences use: text to id
    strings     text, and its token ids (BertTokenizerFast, cut to max_length tokens)
    sentences   text, ids, embedding: one padded batch, mean over real tokens, unit length
    heads       attention weights [heads][query][key] of one layer for one of the sentences
"""
import argparse
import json
import pathlib
import sys

import torch
from transformers import BertModel, BertTokenizerFast

SENTENCES = [
    "The quick brown fox jumps over the lazy dog.",
    "Rain.",
    "Ça va? «Le naïve café» costs €4.50—or £3,90… in 東京 \U0001f996!",
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age"
    " of foolishness, it was the epoch of belief, it was the epoch of incredulity.",
    "Floccinaucinihilipilification isn't antidisestablishmentarianism,"
    " e.g. at X_7f3q@mail.example.",
]
HEADS = {"sentence": 0, "layer": 3}

# First and last of the blocks of CJK ideographs, which are words of their own, and what is outside.
IDEOGRAPHS = [0x33FF, 0x3400, 0x4DBF, 0x4DC0, 0x4DFF, 0x4E00, 0x9FFF, 0xA000, 0xF8FF, 0xF900,
              0xFAFF, 0xFB00, 0x1FFFF, 0x20000, 0x2A6DF, 0x2A6E0, 0x2A6FF, 0x2A700, 0x2B73F,
              0x2B740, 0x2B81F, 0x2B820, 0x2B91F, 0x2B920, 0x2CEAF, 0x2CEB0, 0x2F7FF, 0x2F800,
              0x2FA1F, 0x2FA20]

STRINGS = [
    # Nothing, blanks of all kinds, what is removed: controls, U+FFFD, format characters.
    "", " ", "\t \n\r", "a\tb\nc\rd", "no\u00a0break", "wide\u3000blank",
    "line\u2028para\u2029next", "be\u0007ll \u001b[0m \u007f", "\ufffdodd\ufffd",
    "soft\u00adhyphen", "zero\u200bwidth\u200djoin",
    "\ufeffmark", "left\u200eto\u202eright", "private\ue000use", "un\u0378assigned",
    "next\u0085line", "file\u001cgroup",
    # Case and accents, composed and decomposed.
    "Hello, World!", "ÀÉÎÕÜ àéîõü", "cafe\u0301 nai\u0308ve", "Ångström \u212b", "İstanbul ısı",
    "Straße STRASSE", "ſhort ﬁne ﬂow", "ΟΔΟΣ οδός", "Ёжик Йогурт", "Việt Nam ngữ",
    "Łódź Ørsted Æon", "ＦＵＬＬ ｗｉｄｔｈ", "Ⅷ ½ ① ℃ №", "x\u20e3 y\u0488 \u0308alone", "Dž Lj ǅ ẞ",
    # Punctuation, ASCII and not, and symbols that are none.
    "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", "don't can't o'clock", "U.S.A. e.g. i.e.", "¿Qué? ¡No!",
    "“quoted” ‘single’ „low‟ «guillemets»", "dash – and — and ― and ‐", "…ellipsis… ·dot· •bullet•",
    "€100 £5 ¥7 ¢3 50% 7°", "a+b=c a×b÷c ±1 ∑x ≤ ∞", "© ® ™ § ¶ †", "www.example.org/path?q=1&r=2",
    "name@example.org", "C++ C# F* #tag @user", "3.14159 1,000,000 0x1F -42",
    "2024-02-29T23:59:60Z",
    # Scripts.
    "東京は日本の首都です。", "中文字符，標點。", "漢字kanji混在text", "\uf900\ufa0e\U00020000\U0002f800",
    "カタカナ ひらがな がぎぐ", "한국어 문장", "ภาษาไทย ที่นี่", "हिन्दी में कि", "العَرَبِيَّة ١٢٣", "עִבְרִית",
    "বাংলা ভাষা", "ქართული ႠႡ", "ᏣᎳᎩ Ꭰ", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝒙", "𐐀𐐨 Deseret", "🙂 👩‍💻 ❤️ 🇩🇪",
    " ".join(f"a{chr(point)}b" for point in IDEOGRAPHS),
    # Pieces: long words, unknown ones, the vocabulary's own marks, special tokens.
    "unaffable embeddings tokenization", "antidisestablishmentarianism", "xqzjk Qwxyz zzzzzz",
    "a" * 100, "a" * 101, "é" * 100, "é" * 101, "漢" * 101, "in" * 50 + " " + "in" * 51,
    "##ing ##s un##able", "[CLS] [SEP] [PAD] [UNK] [MASK]", "[cls] [Mask] [ SEP ] [CLS", "a[MASK]b",
    "[[MASK]]", "[unused1] [unused99]", "fill [MASK]the [SEP][SEP] gap", "[UNK]é", "ﷺ ㎏ ﬀ",
    # Longer than the model takes.
    "to be or not to be, that is the question: " * 25, "supercalifragilistic " * 60,
]


def pieces_of(tokenizer, encoded):
    """What the encoded texts are made of, by id; the special tokens always."""
    ids = set(tokenizer.all_special_ids).union(*encoded)
    return {tokenizer.convert_ids_to_tokens(id): id for id in sorted(ids)}


def ids_of(tokenizer, texts, most):
    return tokenizer(texts, truncation=True, max_length=most)["input_ids"]


def embed(model, batch):
    """Unit vectors of a padded batch, and the attention weights of all layers."""
    result = model(**batch, output_attentions=True)
    hidden = result.last_hidden_state
    real = batch["attention_mask"].unsqueeze(-1).to(hidden.dtype)
    mean = (hidden * real).sum(1) / real.sum(1)
    return torch.nn.functional.normalize(mean, dim=1), result.attentions


def rounded(tensor):
    return [float(f"{x:.9g}") for x in tensor.tolist()]


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser(description="make reference.json")
    parser.add_argument("model", type=pathlib.Path, help="folder with the model's files")
    folder = parser.parse_args().model

    most = json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"]
    tokenizer = BertTokenizerFast(vocab_file=str(folder / "vocab.txt"), do_lower_case=True)
    model = BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    batch = tokenizer(SENTENCES, padding=True, return_tensors="pt")
    single, _ = embed(model, batch)
    exact, attentions = embed(model.double(), batch)
    print(f"single precision is off by {(single - exact).abs().max():.1e}", file=sys.stderr)

    index, layer = HEADS["sentence"], HEADS["layer"]
    tokens = int(batch["attention_mask"][index].sum())
    weights = attentions[layer][index][:, :tokens, :tokens]
    string_ids = ids_of(tokenizer, STRINGS, most)
    sentence_ids = ids_of(tokenizer, SENTENCES, most)
    reference = {
        "max_length": most,
        "pieces": pieces_of(tokenizer, string_ids + sentence_ids),
        "strings": [{"text": text, "ids": ids} for text, ids in zip(STRINGS, string_ids)],
        "sentences": [{"text": text, "ids": ids, "embedding": rounded(vector)}
                      for text, ids, vector in zip(SENTENCES, sentence_ids, exact)],
        "heads": {**HEADS, "weights": [[rounded(row) for row in head] for head in weights]},
    }
    lines = json.dumps(reference, separators=(",", ":"))
    print(lines.replace('{"text"', '\n{"text"').replace('"heads"', '\n"heads"'))


if __name__ == "__main__":
    main()
