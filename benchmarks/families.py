"""Model families, each as a tiny model with random weights: what is proved about attention is proved for all of them.

Sizes are primes, or primes times heads, and differ wherever a model allows it, so that no axis can pass for another.
Weights are drawn so wide that no head looks everywhere equally: equal weights would prove nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
import transformers
from torch import Tensor, nn
from transformers import PreTrainedModel

from attention_core import Capture
from attention_core.weights_only import KINDS
from attention_core.windows import WindowedCapture, has_windows

SOURCE, TARGET, VOCABULARY, LONG = 11, 7, 61, 48
SPREAD = 0.25  # the standard deviation of the weights

IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "vocab_size": VOCABULARY}
SIZES = {"hidden_size": 39, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 41}
BERT = SIZES | IDS | {"max_position_embeddings": 37}
# Rotation takes features in pairs: 14 = 2 × 7. Six heads share two key-value heads.
ROTATED = BERT | {"hidden_size": 42}
LLAMA = BERT | {"hidden_size": 84, "num_attention_heads": 6, "num_key_value_heads": 2}
OWN_SIZE = LLAMA | {"head_dim": 22}  # heads × size is not the width
WINDOWS = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 3}
EXPERTS = {
    "num_experts": 3,
    "num_local_experts": 3,
    "num_experts_per_tok": 1,
    "moe_intermediate_size": 20,
    "intermediate_size": 44,
}
GPT2 = IDS | {"n_embd": 39, "n_layer": 2, "n_head": 3, "n_positions": 37}
BART = IDS | {
    "d_model": 39,
    **{f"{stack}_layers": 2 for stack in ("encoder", "decoder")},
    **{f"{stack}_attention_heads": 3 for stack in ("encoder", "decoder")},
    **{f"{stack}_ffn_dim": 41 for stack in ("encoder", "decoder")},
    "max_position_embeddings": 37,
    "decoder_start_token_id": 2,
}
T5 = IDS | {"d_model": 41, "d_kv": 13, "d_ff": 37, "num_layers": 2, "num_heads": 3, "decoder_start_token_id": 0}
VIT = SIZES | {"image_size": 15, "patch_size": 5}
DINO = VIT | {"mlp_ratio": 2}
SOUND = SIZES | {
    "conv_dim": (13,),
    "conv_stride": (3,),
    "conv_kernel": (5,),
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 3,
}
STATES = {"mamba_d_state": 5, "mamba_d_conv": 2, "mamba_n_heads": 12, "mamba_n_groups": 1, "mamba_chunk_size": 5}
LATENT = {"kv_lora_rank": 17, "q_lora_rank": 19, "qk_rope_head_dim": 6, "qk_nope_head_dim": 11, "v_head_dim": 13}
DEEPSEEK = BERT | LATENT | {"num_key_value_heads": 3, "first_k_dense_replace": 2}
GEMMA_3 = OWN_SIZE | WINDOWS | {"query_pre_attn_scalar": 29}
GEMMA_2 = GEMMA_3 | {"attn_logit_softcapping": 5.0}
MODERN = ROTATED | {"layer_types": WINDOWS["layer_types"], "local_attention": 4}
PARTLY_ROTATED = LLAMA | {"hidden_size": 72, "partial_rotary_factor": 0.5}
LINEAR = {"layer_types": ["linear_attention", "full_attention"]}
JAMBA = LLAMA | EXPERTS | {"attn_layer_period": 2, "attn_layer_offset": 1}
QWEN_3_NEXT = OWN_SIZE | EXPERTS | LINEAR
QWEN_3_NEXT |= {"linear_key_head_dim": 6, "linear_value_head_dim": 6, "linear_num_key_heads": 2}
QWEN_3_NEXT |= {"linear_num_value_heads": 4, "shared_expert_intermediate_size": 20}
MAMBA = IDS | {"hidden_size": 39, "num_hidden_layers": 2, "state_size": 5}
WHISPER = BART | {"d_model": 42, "num_mel_bins": 5, "max_source_positions": 13, "max_target_positions": 17}
# Two layers in each stage: the second is shifted. A grid of 7 × 7 does not divide into windows of 3 × 3.
SWIN = {"image_size": 28, "patch_size": 4, "embed_dim": 15, "depths": [2, 2], "num_heads": [3, 6], "window_size": 3}
SWIN_2_SR = SWIN | {"image_size": 9, "patch_size": 1, "num_heads": [3, 3]}
SAM = VIT | {"window_size": 2, "global_attn_indexes": [1], "output_channels": 7}
VIT_DET = VIT | {"window_size": 2, "window_block_indices": [0], "use_relative_position_embeddings": True}
CLIP = {"text_config": BERT, "vision_config": VIT, "image_size": 15}
GPT_NEO = IDS | {"hidden_size": 39, "num_layers": 2, "num_heads": 3, "max_position_embeddings": 37}
GPT_NEO |= {"attention_types": [[["local", "global"], 1]], "window_size": 3}
DEBERTA = BERT | {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "type_vocab_size": 2}
XLM = IDS | {"emb_dim": 39, "n_layers": 2, "n_heads": 3, "max_position_embeddings": 37}
SQUEEZED = {f"{part}_groups": 1 for part in ("q", "k", "v", "post_attention", "intermediate", "output")}
SQUEEZED |= {"embedding_size": 39}
BIG_BIRD = BERT | {"block_size": 2, "num_random_blocks": 1, "max_position_embeddings": 53}
FUNNEL = IDS | {"block_sizes": [1, 1], "d_model": 42, "n_head": 3, "d_head": 14, "d_inner": 41}
PROPHET = IDS | {"hidden_size": 39, "max_position_embeddings": 37}
PROPHET |= {f"{stack}_ffn_dim": 41 for stack in ("encoder", "decoder")}
PROPHET |= {f"num_{stack}_layers": 2 for stack in ("encoder", "decoder")}
PROPHET |= {f"num_{stack}_attention_heads": 3 for stack in ("encoder", "decoder")}
LED = BART | {"attention_window": 4, "max_encoder_position_embeddings": 37, "max_decoder_position_embeddings": 37}
REFORMER = IDS | {"hidden_size": 39, "num_attention_heads": 3, "attention_head_size": 13, "axial_pos_embds": False}
REFORMER |= {"attn_layers": ["local", "lsh"], "max_position_embeddings": 37, "feed_forward_size": 41}


@dataclass(frozen=True)
class Family:
    """One family.

    Attributes:
        name: What people call it.
        model: Its class in transformers, without "Model".
        config: What its configuration is made of.
        reads: "text", "two texts" (a source and a target), "image", "sound", "sound and text", "text and image".
        terms: What must be found in the formula of its first layer; ``...`` stands for any tensor.
        shows: "scores" and weights; "weights" only; or "nothing".
        why: Where scores or everything are refused: what the reason must say.
        skipped: Layers in which no attention is seen.
        spread: The standard deviation of its weights; smaller where scores are not scaled.
    """

    name: str
    model: str
    config: Mapping[str, object]
    reads: str = "text"
    terms: Mapping[str, object] = field(default_factory=dict)
    shows: Literal["scores", "weights", "nothing"] = "scores"
    why: str = ""
    skipped: tuple[str, ...] = ()
    spread: float = SPREAD


ENCODERS = (
    Family("BERT", "Bert", BERT, terms={"factor": 13**-0.5}),
    Family("RoBERTa", "Roberta", BERT),
    Family("XLM-RoBERTa", "XLMRoberta", BERT),
    Family("DistilBERT", "DistilBert", IDS | {"dim": 39, "n_layers": 2, "n_heads": 3, "hidden_dim": 41}),
    Family("ALBERT", "Albert", BERT | {"embedding_size": 17}),
    Family("ELECTRA", "Electra", BERT | {"embedding_size": 17}),
    Family("ModernBERT", "ModernBert", MODERN, terms={"factor": 14**-0.5, "window": 3}),
    Family("NomicBERT", "NomicBert", ROTATED),
    Family("EuroBERT", "EuroBert", LLAMA),
    Family("LayoutLM", "LayoutLM", BERT),
    Family("ESM-2", "Esm", ROTATED | {"position_embedding_type": "rotary"}, terms={"factor": 1.0}),
    Family("CLIP, text", "CLIPText", BERT, terms={"causal": True}),
    Family("SigLIP, text", "SiglipText", BERT),
)
CAUSAL, WINDOW = {"causal": True}, {"causal": True, "window": 3}
DECODERS = (
    Family("GPT-2", "GPT2", GPT2, terms=CAUSAL | {"factor": 13**-0.5}),
    Family("GPT-J", "GPTJ", GPT2 | {"n_embd": 42, "rotary_dim": 6}, terms=CAUSAL),
    Family("GPT-NeoX, Pythia", "GPTNeoX", ROTATED, terms=CAUSAL),
    Family("GPT-BigCode", "GPTBigCode", GPT2, terms=CAUSAL),
    Family("CodeGen", "CodeGen", GPT2 | {"n_embd": 56, "n_head": 4, "rotary_dim": 6}, terms=CAUSAL),
    Family("OPT", "OPT", BERT | {"word_embed_proj_dim": 39, "ffn_dim": 41}, terms=CAUSAL | {"factor": 1.0}),
    Family("BioGPT", "BioGpt", BERT, terms=CAUSAL),
    Family("Llama", "Llama", LLAMA, terms=CAUSAL | {"factor": 14**-0.5}),
    Family("Mistral", "Mistral", OWN_SIZE | {"sliding_window": 3}, terms=WINDOW),
    Family("Mixtral", "Mixtral", LLAMA | EXPERTS | {"sliding_window": 3}, terms=WINDOW),
    Family("Qwen2", "Qwen2", LLAMA | WINDOWS | {"use_sliding_window": True}, terms=WINDOW),
    Family("Qwen3", "Qwen3", OWN_SIZE, terms=CAUSAL | {"factor": 22**-0.5}),
    Family("Qwen3-MoE", "Qwen3Moe", OWN_SIZE | EXPERTS, terms=CAUSAL),
    Family("Gemma", "Gemma", OWN_SIZE, terms=CAUSAL),
    Family("Gemma 2", "Gemma2", GEMMA_2, terms=WINDOW | {"factor": 29**-0.5, "softcap": 5.0}),
    Family("Gemma 3", "Gemma3Text", GEMMA_3, terms=WINDOW | {"factor": 29**-0.5}),
    Family("Phi", "Phi", PARTLY_ROTATED, terms=CAUSAL),
    Family("Phi-3", "Phi3", LLAMA | {"sliding_window": 3}, terms=WINDOW),
    Family("OLMo 2", "Olmo2", LLAMA, terms=CAUSAL),
    Family("OLMo 3", "Olmo3", LLAMA | WINDOWS, terms=WINDOW),
    Family("StarCoder2", "Starcoder2", LLAMA | {"sliding_window": 3}, terms=WINDOW),
    Family("StableLM", "StableLm", PARTLY_ROTATED, terms=CAUSAL),
    Family("Cohere", "Cohere", LLAMA, terms=CAUSAL),
    Family("Cohere 2", "Cohere2", LLAMA | WINDOWS, terms=WINDOW),
    Family("GPT-OSS", "GptOss", OWN_SIZE | WINDOWS | EXPERTS, terms=WINDOW | {"sink": ...}),
    Family("DeepSeek-V3", "DeepseekV3", DEEPSEEK, terms=CAUSAL | {"factor": 17**-0.5}),
    Family("SmolLM3", "SmolLM3", LLAMA | {"no_rope_layers": [1, 0]}, terms=CAUSAL),
    Family("Granite", "Granite", LLAMA | {"attention_multiplier": 0.3}, terms=CAUSAL | {"factor": 0.3}),
    Family("GLM-4", "Glm4", OWN_SIZE, terms=CAUSAL),
    Family("Nemotron", "Nemotron", LLAMA, terms=CAUSAL, spread=0.15),
    Family("Helium", "Helium", LLAMA | {"head_dim": 14}, terms=CAUSAL),
    Family("Doge", "Doge", LLAMA, terms={"allowed": ..., "bias": ...}),
    Family("DiffLlama", "DiffLlama", LLAMA, shows="nothing", why="differential attention"),
)
HYBRIDS = (
    Family("LFM2", "Lfm2", LLAMA | {"layer_types": ["conv", "full_attention"]}, terms=CAUSAL, skipped=("layers.0",)),
    Family("Jamba", "Jamba", JAMBA, terms=CAUSAL, skipped=("layers.0",)),
    Family("Bamba", "Bamba", LLAMA | STATES | {"attn_layer_indices": [1]}, terms=CAUSAL, skipped=("layers.0",)),
    Family("Falcon-H1", "FalconH1", LLAMA | STATES | {"mamba_d_ssm": 84}, terms=CAUSAL),
    Family("Qwen3-Next", "Qwen3Next", QWEN_3_NEXT, terms=CAUSAL, skipped=("layers.0",)),
    Family("MiniMax", "MiniMax", OWN_SIZE | EXPERTS | LINEAR, terms=CAUSAL, skipped=("layers.0",)),
    Family("Mamba", "Mamba", MAMBA, shows="nothing", why="none of MambaModel's layers"),
)
TWO_STACKS = (
    Family("T5", "T5", T5, "two texts", {"factor": 1.0, "bias": ...}, spread=0.15),
    Family("mT5", "MT5", T5, "two texts", {"factor": 1.0, "bias": ...}, spread=0.15),
    Family("UMT5", "UMT5", T5, "two texts", {"factor": 1.0, "bias": ...}, spread=0.15),
    Family(
        "LongT5",
        "LongT5",
        T5 | {"local_radius": 3},
        "two texts",
        CAUSAL | {"bias": ...},
        skipped=("encoder",),
        spread=0.15,
    ),
    Family("BART", "Bart", BART, "two texts", {"factor": 13**-0.5}),
    Family("mBART", "MBart", BART, "two texts"),
    Family("Marian", "Marian", BART | {"d_model": 42}, "two texts", spread=0.4),
    Family("Pegasus", "Pegasus", BART | {"d_model": 42}, "two texts"),
    Family("M2M-100", "M2M100", BART | {"d_model": 42}, "two texts"),
    Family("Blenderbot", "Blenderbot", BART, "two texts"),
    Family("Whisper", "Whisper", WHISPER, "sound and text", {"factor": 1.0}),
)
PICTURES_AND_SOUND = (
    Family("ViT", "ViT", VIT, "image"),
    Family("DeiT", "DeiT", VIT, "image"),
    Family("BEiT", "Beit", VIT | {"use_relative_position_bias": True}, "image", {"bias": ...}),
    Family("DINOv2", "Dinov2", DINO, "image"),
    Family("DINOv2 with registers", "Dinov2WithRegisters", DINO | {"num_register_tokens": 2}, "image"),
    Family("DINOv3", "DINOv3ViT", VIT | {"hidden_size": 84, "num_register_tokens": 2}, "image"),
    Family("CLIP, vision", "CLIPVision", VIT, "image"),
    Family("SigLIP, vision", "SiglipVision", VIT, "image"),
    Family("I-JEPA", "IJepa", VIT, "image"),
    Family("CLIP, both at once", "CLIP", CLIP, "text and image", shows="nothing", why="capture one of its parts"),
    Family("Wav2Vec2", "Wav2Vec2", SOUND, "sound"),
    Family("HuBERT", "Hubert", SOUND, "sound"),
)
OWN_WAYS = (
    Family("BLOOM", "Bloom", IDS | {"hidden_size": 39, "n_layer": 2, "n_head": 3}, shows="weights"),
    Family("Falcon", "Falcon", ROTATED, shows="weights"),
    Family("Falcon with ALiBi", "Falcon", ROTATED | {"alibi": True}, shows="weights"),
    Family("MPT", "Mpt", IDS | {"d_model": 39, "n_heads": 3, "n_layers": 2, "max_seq_len": 37}, shows="weights"),
    Family("GPT-Neo", "GPTNeo", GPT_NEO, shows="weights", spread=0.15),
    Family("GPT", "OpenAIGPT", GPT2, shows="weights"),
    Family(
        "XGLM", "XGLM", IDS | {"d_model": 42, "num_layers": 2, "attention_heads": 3, "ffn_dim": 41}, shows="weights"
    ),
    Family("DeBERTa", "Deberta", DEBERTA, shows="weights"),
    Family("DeBERTa-v2, v3", "DebertaV2", DEBERTA, shows="weights"),
    Family("MPNet", "MPNet", BERT, shows="weights"),
    Family("RoFormer", "RoFormer", ROTATED, shows="weights"),
    Family("XLM", "XLM", XLM, shows="weights"),
    Family("XLNet", "XLNet", IDS | {"d_model": 42, "n_layer": 2, "n_head": 3, "d_inner": 41}, shows="weights"),
    Family("SqueezeBERT", "SqueezeBert", BERT | SQUEEZED, shows="nothing", why="do not sum to 1"),
    Family("I-BERT", "IBert", BERT, shows="weights"),
    Family("BigBird, short texts", "BigBird", BERT, shows="weights"),
    Family("BigBird, long texts", "BigBird", BIG_BIRD, shows="nothing", why="blocks"),
    Family(
        "ConvBERT",
        "ConvBert",
        BERT | {"hidden_size": 42, "num_attention_heads": 6, "embedding_size": 17},
        shows="weights",
    ),
    Family("CANINE", "Canine", BERT, shows="nothing", why="pieces of the text"),
    Family("Funnel", "Funnel", FUNNEL, shows="nothing", why="pools positions"),
    Family("ProphetNet", "ProphetNet", PROPHET, "two texts", shows="nothing", why="several streams"),
    Family("Longformer", "Longformer", BERT | {"attention_window": 10}, shows="nothing", why="a window that moves"),
    Family("LED", "LED", LED, "two texts", shows="nothing", why="a window that moves"),
    Family("Reformer", "Reformer", REFORMER, shows="nothing", why="hashed buckets"),
    Family("Nyströmformer", "Nystromformer", BERT, shows="nothing", why="landmarks"),
    Family("YOSO", "Yoso", BERT, shows="nothing", why="hashing"),
    Family("FNet", "FNet", BERT, shows="nothing", why="none of FNetModel's layers"),
)
WINDOWED = (
    Family("Swin", "Swin", SWIN, "image", {"factor": 5**-0.5, "bias": ...}),
    Family("Swin v2", "Swinv2", SWIN, "image", shows="weights", spread=0.1),
    Family("Swin2SR", "Swin2SR", SWIN_2_SR, "image", shows="weights", spread=0.1),
    Family("MaskFormer's Swin", "MaskFormerSwin", SWIN, "image", shows="weights"),
    Family("Donut's Swin", "DonutSwin", SWIN, "image", shows="weights"),
    Family("SAM, vision", "SamVision", SAM, "image", {"factor": 13**-0.5, "bias": ...}),
    Family("SAM-HQ, vision", "SamHQVision", SAM, "image", {"factor": 13**-0.5, "bias": ...}),
    Family("ViTDet", "VitDet", VIT_DET, "image", shows="weights"),
)
FAMILIES = (*ENCODERS, *DECODERS, *HYBRIDS, *TWO_STACKS, *PICTURES_AND_SOUND, *OWN_WAYS)
NO_MASK = ("image", "sound", "sound and text", "text and image")


def build(family: Family) -> PreTrainedModel:
    """Make the model, in evaluation mode."""
    config = getattr(transformers, f"{family.model}Config")(**family.config)
    torch.manual_seed(0)
    module = getattr(transformers, f"{family.model}Model")(config).eval()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if parameter.ndim > 1 or "bias" in name or "sink" in name:
                parameter.normal_(std=family.spread)
    return module


def inputs(family: Family) -> dict[str, Tensor]:
    """Make what the model reads: a batch of one."""
    draw = torch.Generator().manual_seed(0)
    length = LONG if family.config is BIG_BIRD else SOURCE
    source, target = (torch.randint(3, VOCABULARY, (1, n), generator=draw) for n in (length, TARGET))
    side = family.config.get("image_size", 15)
    image = torch.randn(1, 3, side, side, generator=draw)
    return {
        "text": {"input_ids": source},
        "two texts": {"input_ids": source, "decoder_input_ids": target},
        "image": {"pixel_values": image},
        "text and image": {"input_ids": source, "pixel_values": image},
        "sound": {"input_values": torch.randn(1, 41, generator=draw)},
        "sound and text": {"input_features": torch.randn(1, 5, 26, generator=draw), "decoder_input_ids": target},
    }[family.reads]


def eager_weights(module: PreTrainedModel, given: Mapping[str, Tensor]) -> dict[str, list[Tensor]]:
    """Return what the library itself computes in its plainest way: by kind, each layer's weights (H, Q, K)."""
    if module._can_set_attn_implementation():
        module.set_attn_implementation("eager")
    with torch.no_grad():
        output = module(**given, output_attentions=True, return_dict=True)
    found = {kind: output.get(name) or () for name, kind in KINDS.items()}
    return {kind: [layer[0] for layer in layers if layer is not None] for kind, layers in found.items()}


def pairs(seen: Capture, expected: Mapping[str, list[Tensor]]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the weights of every head of every kind beside the library's own."""
    for kind in seen.kinds:
        every = len(expected[kind]) > len(seen.attention[kind])  # MiniMax hands out its linear attention's as well
        for layer in range(len(seen.attention[kind])):
            weights = expected[kind][seen.place(layer, kind) if every else layer]
            for head in range(seen.layer(layer, kind).heads):
                yield seen.weights(layer, head, kind=kind), weights[head]


def window_weights(family: Family, given: Mapping[str, Tensor]) -> list[Tensor]:
    """Return what the library computes in its plainest way in a model that looks in windows: each layer's (W, H, N, N).

    What it hands out as a whole may be the last layer of each stage only, so each layer's attention is asked.
    """
    module = build(replace(family, config={**family.config, "attn_implementation": "eager"}))
    found: list[Tensor] = []

    def keep(part: nn.Module, args: tuple, output: tuple) -> None:
        heads = getattr(part, "num_attention_heads", 1)
        found.append(output[1] if output[1].ndim == 4 else output[1].unflatten(0, (-1, heads)))

    for part in module.modules():
        if has_windows(part) and not any(has_windows(inner) for inner in part.children()):  # one layer
            attention = getattr(part, "attn", None) or part.attention
            if not module._can_set_attn_implementation():
                ask = lambda _, args, kwargs: (args, {**kwargs, "output_attentions": True})  # noqa: E731
                attention.register_forward_pre_hook(ask, with_kwargs=True)
            attention.register_forward_hook(keep)
    with torch.no_grad():
        module(**given)
    return found


def window_pairs(seen: WindowedCapture, expected: Sequence[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the weights of every head of every window of every layer beside the library's own."""
    for layer, own in enumerate(seen.cut):
        for number in range(own.windows.count):
            for head in range(own.heads):
                yield seen.window(layer, number).weights(0, head), expected[layer][number, head]
