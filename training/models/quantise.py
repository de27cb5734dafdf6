"""Models small enough to ship: weights as 8-bit integers with a scale for each row, a quarter of float32."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedModel

PACKED = "weights.int8.safetensors"
SCALE = ".scale"


def pack_model(model: PreTrainedModel, out: Path) -> None:
    """Writes the weights of a transformers model to OUT/PACKED, and its config beside them. Matrices are rounded to 8
    bits (the largest of a row is 127), vectors to bfloat16; tied weights are written once."""
    import torch
    from safetensors.torch import save_file

    tied = set(getattr(model, "_tied_weights_keys", None) or ()) if model.config.tie_word_embeddings else set()
    tensors = {}
    for name, weight in model.state_dict().items():
        if name in tied:
            continue
        if weight.dim() < 2:
            tensors[name] = weight.to(torch.bfloat16).contiguous()
            continue
        scale = weight.float().abs().amax(dim=1).clamp(min=1e-12) / 127
        tensors[name] = (weight.float() / scale[:, None]).round().to(torch.int8)
        tensors[name + SCALE] = scale
    out.mkdir(parents=True, exist_ok=True)
    save_file(tensors, out / PACKED)
    model.config.save_pretrained(out)


def unpack_model(folder: Path) -> PreTrainedModel:
    """The model that pack() wrote, in float32. Raises as transformers and safetensors do for damaged files."""
    from safetensors.torch import load_file
    from transformers import AutoConfig, AutoModelForCausalLM

    stored = load_file(folder / PACKED)
    weights = {}
    for name, tensor in stored.items():
        if not name.endswith(SCALE):
            scale = stored.get(name + SCALE)
            weights[name] = tensor.float() if scale is None else tensor.float() * scale[:, None]
    model: PreTrainedModel = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
    missing, unexpected = model.load_state_dict(weights, strict=False)
    model.tie_weights()
    tied = set(getattr(model, "_tied_weights_keys", None) or ())
    if unexpected or set(missing) - tied:
        raise ValueError(f"weights do not fit the model: {[*unexpected, *missing][:3]}")
    return model
