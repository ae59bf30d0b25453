"""Makes tests/goldens/text_*.npz: logits, losses, gradients and generated ids of transformers' text models, and of
torch's Transformer, with random weights.

In an environment of its own, which vitzoo and its tests don't need:

    python -m venv /tmp/peer && /tmp/peer/bin/pip install torch transformers
    /tmp/peer/bin/python scripts/make_text_goldens.py tests/goldens
    /tmp/peer/bin/python scripts/make_text_goldens.py --count    # parameters of the published T5s

Every file holds `parameter/NAME` and `gradient/NAME` under the peer's names, the inputs (`tokens`, `segments`: 1 for a
real token and 0 for padding, ...), `targets` (-100: not scored), `logits` and `loss`, the mean over scored targets.

Generation, of each prompt by itself: `prompt_I` (a GPT's text so far, a T5's source), `greedy_I`, and for three beams
under a length penalty `beams/PENALTY_I` [3, ids], best first, and `scores/PENALTY_I`. The start of a result (a GPT's
prompt, a T5's start id) is part of it; at most 12 ids are new; `end` ends it, and what follows means nothing. In
transformers a hypothesis scores the sum of its log-probabilities / (number of its new ids, the end included) ^ PENALTY;
of a step's continuations those among the best three may end, and a search is over when the best running beam, were it
to end now, would not beat the worst of three that have ended. `beams/1.0/true_I` are of early_stopping=True, by which a
search is over once three have ended; `beams/1.0/never_I` of "never", where the best running one is taken to score as if
it went on to the longest length without losing.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import nn

VOCABULARY, WIDTH, HEADS, DEPTH, HIDDEN = 60, 16, 2, 2, 24
LENGTHS = (9, 6, 4)
PROMPTS = (5, 2, 3)
NEW, BEAMS = 12, 3
SEARCHES: tuple[tuple[float, bool | str], ...] = ((0.6, False), (1.0, False), (1.0, True), (1.0, "never"))
"""Length penalty and early stopping."""
T5_SIZES: dict[str, Any] = {
    "d_model": WIDTH,
    "d_ff": HIDDEN,
    "d_kv": 6,  # heads whose width is not the tokens'
    "num_heads": HEADS,
    "num_layers": DEPTH,
    "num_decoder_layers": DEPTH,
    "relative_attention_num_buckets": 8,  # so that texts of nine tokens reach every kind of bucket
    "relative_attention_max_distance": 7,
}
V1_1: dict[str, Any] = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
"""The second says that the head's input isn't scaled; the head becomes one of its own only by `untie`."""

# sizes from the published config.json files: d_model, d_ff, d_kv, heads, layers, decoder layers
PUBLISHED = {
    "small": (512, 2048, 64, 8, 6, 6),
    "base": (768, 3072, 64, 12, 12, 12),
    "large": (1024, 4096, 64, 16, 24, 24),
    "3B": (1024, 16_384, 128, 32, 24, 24),
    "11B": (1024, 65_536, 128, 128, 24, 24),
    "v1.1-small": (512, 1024, 64, 6, 8, 8),
    "v1.1-base": (768, 2048, 64, 12, 12, 12),
    "v1.1-large": (1024, 2816, 64, 16, 24, 24),
    "v1.1-xl": (2048, 5120, 64, 32, 24, 24),
    "v1.1-xxl": (4096, 10_240, 64, 64, 24, 24),
    "byt5-small": (1472, 3584, 64, 6, 12, 4),
    "byt5-base": (1536, 3968, 64, 12, 18, 6),
    "byt5-large": (1536, 3840, 64, 16, 36, 12),
    "byt5-xl": (2560, 6720, 64, 32, 36, 12),
    "byt5-xxl": (4672, 12_352, 64, 64, 36, 12),
}
PUBLISHED |= {name.replace("v1.1", "mt5"): sizes for name, sizes in PUBLISHED.items() if name.startswith("v1.1")}


def untie(model: Any) -> None:
    """Gives a T5 the head of its own that a checkpoint of version 1.1 brings."""
    model.lm_head.weight = nn.Parameter(torch.empty_like(model.lm_head.weight))


def randomise(model: nn.Module, deviation: float = 0.2, tables: float = 0.2) -> None:
    """Every parameter counts, `tables` being the deviation of embeddings, and the scales of norms are about 1."""
    for name, parameter in model.named_parameters():
        norm = any(part in name.lower() for part in ("norm", "ln_")) and name.endswith("weight")
        embedding = any(part in name for part in ("shared", "wte", "embed.weight", "wpe"))
        nn.init.normal_(parameter, mean=float(norm), std=tables if embedding else deviation)


def texts(lengths: tuple[int, ...], low: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    """Random ids and segments [texts, longest], padding at the end."""
    segments = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    return torch.randint(low, VOCABULARY, segments.shape) * segments, segments


def score(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The mean loss of the targets that aren't -100."""
    return nn.functional.cross_entropy(logits.flatten(0, -2), targets.flatten(), ignore_index=-100)


def record(model: nn.Module, loss: torch.Tensor, **values: torch.Tensor) -> dict[str, np.ndarray]:
    """The values, the loss, and every parameter with its gradient."""
    loss.backward()
    values |= {"loss": loss}
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        values |= {f"parameter/{name}": parameter, f"gradient/{name}": parameter.grad}
    return {name: value.detach().numpy() for name, value in values.items()}


def next_tokens(tokens: torch.Tensor, segments: torch.Tensor) -> torch.Tensor:
    """What each token of a text is followed by; -100 where nothing is."""
    after = torch.where(segments[:, 1:] > 0, tokens[:, 1:], -100)
    return nn.functional.pad(after, (0, 1), value=-100)


def generations(model: Any, prompts: list[torch.Tensor], **ids: int) -> dict[str, np.ndarray]:
    """Greedy and beam search of each prompt, by itself; a batch of them, padded, gives the same."""
    found: dict[str, Any] = {}
    common: dict[str, Any] = {"max_new_tokens": NEW, "do_sample": False, "return_dict_in_generate": True}
    if model.config.is_encoder_decoder:
        common |= {"decoder_start_token_id": 0}
    common |= {"eos_token_id": ids["end"], "pad_token_id": ids["pad"]}
    for index, prompt in enumerate(prompts):
        seen = torch.ones_like(prompt)[None]
        found[f"prompt_{index}"] = prompt
        found[f"greedy_{index}"] = model.generate(prompt[None], attention_mask=seen, **common).sequences[0]
        for penalty, stopping in SEARCHES:
            beams = model.generate(
                prompt[None],
                attention_mask=seen,
                num_beams=BEAMS,
                num_return_sequences=BEAMS,
                length_penalty=penalty,
                early_stopping=stopping,
                output_scores=True,
                **common,
            )
            named = f"{penalty}{f'/{stopping}'.lower() if stopping else ''}_{index}"
            found[f"beams/{named}"] = beams.sequences
            found[f"scores/{named}"] = beams.sequences_scores
    longest, decoder = max(map(len, prompts)), not model.config.is_encoder_decoder
    pads = [(longest - len(prompt), 0) if decoder else (0, longest - len(prompt)) for prompt in prompts]
    batch = torch.stack([nn.functional.pad(p, pad, value=ids["pad"]) for p, pad in zip(prompts, pads, strict=True)])
    seen = torch.stack([nn.functional.pad(torch.ones_like(p), pad) for p, pad in zip(prompts, pads, strict=True)])
    together = model.generate(batch, attention_mask=seen, **common).sequences
    for index, (row, prompt) in enumerate(zip(together, prompts, strict=True)):
        new, alone = row[longest if decoder else 0 :], found[f"greedy_{index}"][len(prompt) if decoder else 0 :]
        assert torch.equal(new[: len(alone)], alone), (index, new, alone)
    return {name: value.numpy() for name, value in found.items()} | {
        name: np.array(value) for name, value in ids.items()
    }


def gpt2() -> dict[str, np.ndarray]:
    """A decoder with norms before each part."""
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=24, n_embd=WIDTH, n_layer=DEPTH, n_head=HEADS, n_inner=HIDDEN
    )
    model = transformers.GPT2LMHeadModel._from_config(config, attn_implementation="eager").eval()
    randomise(model)
    tokens, segments = texts(LENGTHS)
    targets = next_tokens(tokens, segments)
    logits = model(tokens, attention_mask=segments).logits
    loss = score(logits, targets)
    values = record(model, loss, tokens=tokens, tokens_segments=segments, targets=targets, logits=logits)
    prompts = [torch.randint(2, VOCABULARY, (n,)) for n in PROMPTS]
    return values | generations(model, prompts, end=END["gpt2"], pad=END["gpt2"])


def gpt1() -> dict[str, np.ndarray]:
    """A decoder with norms after each sum, whose hidden layers are four times as wide."""
    config = transformers.OpenAIGPTConfig(
        vocab_size=VOCABULARY, n_positions=12, n_embd=WIDTH, n_layer=DEPTH, n_head=HEADS
    )
    model = transformers.OpenAIGPTLMHeadModel._from_config(config, attn_implementation="eager").eval()
    randomise(model)
    tokens, segments = texts(LENGTHS)
    targets = next_tokens(tokens, segments)
    logits = model(tokens, attention_mask=segments).logits
    return record(
        model, score(logits, targets), tokens=tokens, tokens_segments=segments, targets=targets, logits=logits
    )


def t5(name: str, **changes: Any) -> dict[str, np.ndarray]:
    """An encoder and a decoder; targets stand behind the start id 0."""
    config = transformers.T5Config(vocab_size=VOCABULARY, **T5_SIZES, **changes)
    model = transformers.T5ForConditionalGeneration._from_config(config, attn_implementation="eager").eval()
    if changes:
        untie(model)
    randomise(model, *DEVIATIONS[name])
    source, source_segments = texts(LENGTHS)
    targets, segments = texts((4, 7, 5))
    tokens = nn.functional.pad(targets, (1, -1)) * segments
    targets = torch.where(segments > 0, targets, -100)
    masks = {"attention_mask": source_segments, "decoder_attention_mask": segments}
    logits = model(source, decoder_input_ids=tokens, **masks).logits
    inputs = {"source": source, "source_segments": source_segments, "tokens": tokens, "tokens_segments": segments}
    values = record(model, score(logits, targets), targets=targets, logits=logits, **inputs)
    prompts = [torch.randint(2, VOCABULARY, (n,)) for n in PROMPTS]
    return values | generations(model, prompts, end=END[name], pad=0)


def bert() -> dict[str, np.ndarray]:
    """An encoder with both heads of its first training; the loss is the sum of theirs."""
    config = transformers.BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        num_hidden_layers=DEPTH,
        num_attention_heads=HEADS,
        intermediate_size=HIDDEN,
        max_position_embeddings=12,
    )
    model = transformers.BertForPreTraining._from_config(config, attn_implementation="eager").eval()
    randomise(model)
    tokens, segments = texts(LENGTHS)
    types = (torch.arange(tokens.shape[1]) > 2).long() * segments
    targets = torch.where((torch.rand(tokens.shape) < 0.4) & (segments > 0), torch.randint_like(tokens, 60), -100)
    follows = torch.tensor([0, 1, 1])
    made = model(tokens, attention_mask=segments, token_type_ids=types)
    logits, next_sentence = made.prediction_logits, made.seq_relationship_logits
    hidden = model.bert(tokens, attention_mask=segments, token_type_ids=types)
    loss = score(logits, targets) + score(next_sentence, follows)
    inputs = {"tokens": tokens, "tokens_segments": segments, "tokens_types": types}
    outputs = {"logits": logits, "next_sentence_logits": next_sentence, "pooled": hidden.pooler_output}
    return record(model, loss, targets=targets, next_sentence=follows, **inputs, **outputs)


class Transformer2017(nn.Module):
    """Attention Is All You Need on torch's layers: no norm after a stack, one table for both embeddings and the head,
    embeddings times sqrt(width), sines and cosines alternating."""

    def __init__(self) -> None:
        super().__init__()
        layer: dict[str, Any] = {"dim_feedforward": HIDDEN, "batch_first": True, "layer_norm_eps": 1e-6}
        encoder = nn.TransformerEncoderLayer(WIDTH, HEADS, **layer)
        decoder = nn.TransformerDecoderLayer(WIDTH, HEADS, **layer)
        self.shared = nn.Embedding(VOCABULARY, WIDTH)
        self.encoder = nn.TransformerEncoder(encoder, DEPTH, norm=None, enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(decoder, DEPTH, norm=None)

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        """Ids to tokens."""
        places, speeds = torch.arange(tokens.shape[1])[:, None], 10_000.0 ** -(torch.arange(0, WIDTH, 2) / WIDTH)
        waves = torch.stack([torch.sin(places * speeds), torch.cos(places * speeds)], dim=-1).flatten(1)
        return self.shared(tokens) * WIDTH**0.5 + waves

    def forward(self, source: torch.Tensor, source_real: torch.Tensor, tokens: torch.Tensor, real: torch.Tensor):
        """Logits."""
        length = tokens.shape[1]
        memory = self.encoder(self.embed(source), src_key_padding_mask=~source_real)
        decoded = self.decoder(
            self.embed(tokens),
            memory,
            tgt_mask=torch.ones(length, length, dtype=torch.bool).triu(1),
            tgt_key_padding_mask=~real,
            memory_key_padding_mask=~source_real,
        )
        return decoded @ self.shared.weight.T


def transformer() -> dict[str, np.ndarray]:
    """The Transformer of 2017."""
    model = Transformer2017().eval()
    randomise(model)
    source, source_segments = texts(LENGTHS)
    targets, segments = texts((4, 7, 5))
    tokens = nn.functional.pad(targets, (1, -1)) * segments
    targets = torch.where(segments > 0, targets, -100)
    logits = model(source, source_segments > 0, tokens, segments > 0)
    inputs = {"source": source, "source_segments": source_segments, "tokens": tokens, "tokens_segments": segments}
    return record(model, score(logits, targets), targets=targets, logits=logits, **inputs)


DEVIATIONS = {"t5": (0.35, 0.5), "t5_v1_1": (0.25, 0.7)}
SEEDS = {"gpt2": 2, "t5": 1, "t5_v1_1": 2}  # whose results end at different lengths and don't only repeat an id
END = {"gpt2": 42, "t5": 1, "t5_v1_1": 37}
CASES: dict[str, Any] = {
    "gpt2": gpt2,
    "gpt1": gpt1,
    "t5": lambda: t5("t5"),
    "t5_v1_1": lambda: t5("t5_v1_1", **V1_1),
    "bert": bert,
    "transformer": transformer,
}


def count() -> None:
    """Prints how many parameters each published T5 has; no memory is used."""
    for name, (width, hidden, head, heads, layers, decoder) in PUBLISHED.items():
        vocabulary = 250_112 if name.startswith("mt5") else 384 if name.startswith("byt5") else 32_128
        sizes: dict[str, Any] = {"d_model": width, "d_ff": hidden, "d_kv": head, "num_heads": heads}
        sizes |= {"num_layers": layers, "num_decoder_layers": decoder, "vocab_size": vocabulary}
        config = transformers.T5Config(**sizes, **(V1_1 if "-" in name else {}))
        with torch.device("meta"):
            model = transformers.T5ForConditionalGeneration(config)
            if "-" in name:
                untie(model)
        print(f'"{name}": {sum(parameter.numel() for parameter in model.parameters()):_},')


def main() -> None:
    """Writes the files into the folder named on the command line."""
    if sys.argv[1] == "--count":
        return count()
    versions = np.array(f"transformers {transformers.__version__}, torch {torch.__version__}")
    for name, make in CASES.items():
        torch.manual_seed(SEEDS.get(name, 0))
        arrays = {key: value.astype(np.int32) if value.dtype == np.int64 else value for key, value in make().items()}
        np.savez_compressed(Path(sys.argv[1]) / f"text_{name}.npz", allow_pickle=False, versions=versions, **arrays)
        print(name, {key: value.tolist() for key, value in arrays.items() if key.startswith(("greedy", "loss"))})
    return None


if __name__ == "__main__":
    main()
