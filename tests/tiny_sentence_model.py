"""A real sentence-transformers model, so small that it is made in a moment: two layers, random weights, fixed seed.

Its vocabulary holds Latin letters, kana and the Chinese characters of the sample texts, so that English,
Chinese and Japanese are cut into tokens that differ.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

DIMENSION = 32
MAX_TOKENS = 512
_HAN = "展览每周一闭馆学生可以半价购票会議室使前日申込退款政策什么是读第二页的图书文档东京天气好量子力本を見"


def missing() -> str | None:
    """Why no model can be made here."""
    absent = [name for name in ("torch", "sentence_transformers") if importlib.util.find_spec(name) is None]
    if not absent:
        return None
    return f"{' and '.join(absent)} not installed: make test-m3e runs these tests in an environment that has them"


def vocabulary() -> list[str]:
    """Special tokens, then letters and digits as a word's beginning and within it, signs, kana, Chinese characters."""
    letters = [chr(code) for code in (*range(ord("a"), ord("z") + 1), *range(ord("0"), ord("9") + 1))]
    signs = [chr(code) for code in range(33, 127) if not chr(code).isalnum()] + list("。、,?!:「」→")
    kana = [chr(code) for code in range(0x3041, 0x30FF)]
    han = list(dict.fromkeys(_HAN))
    words = ["the", "read", "room", "##ing", "##s"]
    within = [f"##{one}" for one in (*letters, *kana)]
    return list(
        dict.fromkeys(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *signs, *kana, *han, *words, *within])
    )


def write_model(
    folder: Path, *, safetensors: bool = True, prompts: dict[str, str] | None = None, seed: int = 0
) -> Path:
    """Write one into `folder`, as SentenceTransformer.save does it: mean pooling, no normalising."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizerFast

    plain = folder / "plain"
    words = vocabulary()
    BertTokenizerFast(vocab={word: i for i, word in enumerate(words)}, do_lower_case=True).save_pretrained(plain)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = BertConfig(
            vocab_size=len(words),
            hidden_size=DIMENSION,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=2 * DIMENSION,
            max_position_embeddings=MAX_TOKENS,
            initializer_range=0.3,  # so that texts differ as much as those of a trained model do
        )
        BertModel(config).save_pretrained(plain)
    transformer = Transformer(str(plain), max_seq_length=MAX_TOKENS)
    pooling = Pooling(transformer.get_embedding_dimension(), pooling_mode="mean")
    model = SentenceTransformer(modules=[transformer, pooling], device="cpu", prompts=prompts)
    target = folder / "model"
    model.save(str(target), create_model_card=False)
    if not safetensors:
        torch.save(transformer.auto_model.state_dict(), target / "pytorch_model.bin")
        (target / "model.safetensors").unlink()
    return target
