"""Inputs that a name stands for: ``device``, ``optimizer``, ``mask``, ``labels`` and their like."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from drygrad.dryrun.inputs.nodes import BATCH, CHANNELS, FEATURES, LENGTH, SIDE, Node, number, tensor, text, with_others

SOURCE = "convention"
STAND_IN = "stand-in"
"""The source of what only takes the place of a model, a logger or another object of the program."""

DEVICE = 'torch.device("cuda" if torch.cuda.is_available() else "cpu")'
FOLDER = "__import__('tempfile').gettempdir()"
IDENTITY = "torch.nn.Identity()"
ANY_CALL = "lambda x, *rest, **more: x"
OF_OPTIMIZERS = frozenset(
    "step zero_grad param_groups state state_dict load_state_dict add_param_group get_last_lr last_epoch defaults "
    "get_lr __class__".split()
)
SILENT = "__import__('unittest.mock', fromlist=['MagicMock']).MagicMock()"

_TEXTS: tuple[tuple[str, str], ...] = (
    (r"(.+_)?device", DEVICE),
    (r"(criterion|loss_f(n|unc(tion)?)|loss_criterion|objective)", "torch.nn.CrossEntropyLoss()"),
    (r"(grad_?)?scaler", "torch.amp.GradScaler(enabled=False)"),
    (r"(generator|rng)", "torch.Generator()"),
    (r"(.*_)?(summary_?)?(writer|logger|tb|log|wandb|run|progress|pbar|meter|tracker|console)", SILENT),
    (r"(.*_)?(dtype)", "torch.float32"),
    (r"(.*_)?(act|act_layer|activation|act_fn|nonlinearity|activation_fn|activation_layer)", "torch.nn.ReLU"),
    (r"(.*_)?(norm_layer|norm_fn)", "torch.nn.LayerNorm"),
    (r"(.*_)?(conv_layer)", "torch.nn.Conv2d"),
    (r"(.*_)?(bias|verbose|training|causal|is_causal|affine|debug|return_\w+|use_\w+|inplace)", "False"),
    (r"(dropout|drop|.*_dropout|drop_(rate|path|prob)|.*_drop|p|prob|rate|.*_(prob|rate)|(.*_)?smoothing)", "0.1"),
    (r"(lr|learning_rate|eps|epsilon|weight_decay|alpha|temperature|tau|.*_weight|beta|gamma|momentum|scale|sigma"
     r"|lambda_?|lam|theta|threshold|margin|decay|.*_scale|.*_ratio|ratio|(.*_)?(coeff?|frac|fraction|lr|wd|clip)|(max|clip)_(grad_)?norm)",
     "0.5"),
    (r"(name|prefix|tag)", "'name'"),
    (r"(reduction)", "'mean'"),
    (r"(.*_)?pattern", "'* d'"),
    (r"(mode)", "'train'"),
    (r"(padding_mode)", "'zeros'"),
    (r"(.*_)?(dir|folder|directory|root)", FOLDER),
    (r"(.*_)?(path|file|filename|checkpoint_path)", "'dry-run.tmp'"),
)  # fmt: skip

_OPTIMIZERS = re.compile(r"(.*_)?(optim|optimizer|opt|optimiser)(_\w+)?")
_SCHEDULERS = re.compile(r"(.*_)?(lr_)?(scheduler|sched)")
MODELS = re.compile(
    r"(.*_)?(model|net|network|module|encoder|decoder|backbone|generator|discriminator|critic|denoise_fn|unet|vae|netg|netd|"
    r"actor|policy|student|teacher|classifier|layer|head|fn|func|block)(_fn)?\d?",
    re.IGNORECASE,
)
_LAYERS = re.compile(r"(fn|func|layer|block|module|net|function|inner|wrapped|branch)s?")
LOADERS = re.compile(r"(.*_)?(loader|dataloader|dl|data_?loader|iterator|data_iter|train_iter|batches|dataset|data)s?")
CONFIGS = re.compile(r"(.*_)?(args|cfg|config|conf|opts?|hparams|hp|params|configs|configuration|options)")
LOGGERS = re.compile(r"(.*_)?(logger|writer|wandb|tb|tracker|pbar|console)")
SURE_CONFIGS = re.compile(r"(.*_)?(args|cfg|config|conf|hparams)")
"""Names of what is a configuration though all that is read of it could be read of a tensor, too."""

_NUMBERS: tuple[tuple[str, int], ...] = (
    (r"(n_?|num_?)(heads?|attention_heads)|heads?|nhead|.*_heads", 4),
    (r"(dim_head|head_dim|dim_per_head|d_k|d_v|d_head)", 16),
    (
        r"(n_?|num_?)?(layers?|blocks|depth|depths|stages|iters|iterations|steps|epochs|levels|.*_depth|.*_layers|repeats?)",
        2,
    ),
    (
        r"(epoch|batch_idx|batch_index|i|idx|index|step|iteration|global_step|it|rank|seed|start_epoch|axis|layer_idx|"
        r"action|label)",
        0,
    ),
    (r"(.*_)?(image_size|img_size|image_dim|input_size_hw|resolution|input_resolution|size)", SIDE),
    (r"(.*_)?(patch_size|window_size|patch|block_size)", 8),
    (r"(kernel_size|kernel|ksize|k|filter_size|.*_kernel_size)", 3),
    (r"(stride|dilation|groups|num_groups|group|expansion|n|multiplier|width_mult|mult|factor|num_frames_per)", 1),
    (r"(padding|pad|pad_idx|padding_idx|pad_token_id|ignore_index|start|offset|output_padding)", 0),
    (r"(num_?|n_?)?(classes|labels|class|categories|outputs|tags|tagset_size|num_tags|out_classes|outputs?_dim)", 10),
    (r"(.*_)?(vocab(_size)?|num_tokens|n_?vocab|num_embeddings|ntoken|codebook_size|vocab_len|input_vocab)", 50),
    (
        r"(.*_)?(seq_len|seq_length|max_len(gth)?|max_seq_len|length|seqlen|block_len|context_length|max_position\w*)",
        16,
    ),
    (r"(image_|in_)?channels|(num_|n_)channels|in_chans|img_channels", CHANNELS),
    (r"(batch_size|bs|b|batch|n_samples|num_samples)", BATCH),
    (r"(frames|num_frames|n_frames|t_len)", 4),
    (r"(timesteps|num_timesteps|n_steps|num_steps)", 10),
    (r"(accum\w*|grad_accum\w*|accumulation_steps)", 2),
    (r"(num_|n_)?(experts|codebooks|mixtures|memories|mem_tokens|latents|registers|prototypes|landmarks|queries)", 4),
    (r"(top_?k|topk)", 2),
    (r"(.*_)?(capacity|(buffer|memory|queue|max|cache|replay)_?size|maxlen)", 500),
)
_DIMS = re.compile(
    r"(.*_)?(dims?|d_?model|hidden|features?|embed(_?dim|ding_dim|ding_size)?|width|channels?|planes|chans|units|nhid|ninp|"
    r"hidden_size|input_size|ch|inp|oup|c1|c2|size|emb|latent|nf|filters|(in|out)_?(c|ch|dim|f|d))(_\w+)?"
)

_TENSORS: tuple[tuple[str, Callable[[], Node]], ...] = (
    (r"(.*_)?(mask|masks|padding_mask|attn_mask|attention_mask)", lambda: tensor((BATCH, LENGTH), "bool", SOURCE)),
    (r"(.*_)?(input_ids|token_ids|tokens?|ids|src|tgt|word_ids|sentence|sentences|seq|sequence|words|codes|indices)",
     lambda: tensor((BATCH, LENGTH), "int64", SOURCE, high=10)),
    (r"(.*_)?(labels?|targets?|y|y_true|gt|classes|tags|target_ids)",
     lambda: tensor((BATCH,), "int64", SOURCE, high=2)),
    (r"(.*_)?(lengths?|lens|seq_lens|input_lengths)", lambda: tensor((BATCH,), "int64", SOURCE, low=1, high=LENGTH)),
    (r"(t|times?|timesteps?|time_steps?|noise_level)", lambda: tensor((BATCH,), "int64", SOURCE, high=10)),
    (r"(.*_)?(images?|imgs?|img\d|image\d|pixels?|pixel_values|pictures?|frames?_rgb)",
     lambda: tensor((BATCH, CHANNELS, SIDE, SIDE), source=SOURCE)),
    (r"(.*_)?(videos?|vid)", lambda: tensor((BATCH, CHANNELS, 4, SIDE, SIDE), source=SOURCE)),
    (r"(audio|waveform|wav|signal)", lambda: tensor((BATCH, 1, 1024), source=SOURCE)),
    (r"(probs?|probabilities)", lambda: tensor((BATCH, 10), source=SOURCE, low=1)),
    (r"(logits|outputs?|preds?|predictions?|scores?|y_pred|y_hat)", lambda: tensor((BATCH, 10), source=SOURCE)),
    (r"(q|k|v|query|key|value|queries|keys|values|context|memory|hidden_states|hidden|embeds?|embeddings?)",
     lambda: tensor((BATCH, LENGTH, FEATURES), source=SOURCE)),
    (r"(z|latents?|noise|cond|condition)", lambda: tensor((BATCH, FEATURES), source=SOURCE)),
    (r"(betas|alphas|sigmas|(.*_)?alphas_cumprod|alpha_bars?)", lambda: tensor((10,), source=SOURCE, low=1)),
)  # fmt: skip


def by_name(name: str) -> Node | None:
    """Return what a name stands for by convention; None where it could be anything."""
    lowered = name.lower().strip("_")
    for pattern, expression in _TEXTS:
        if re.fullmatch(pattern, lowered):
            return text(expression, STAND_IN if expression == SILENT else SOURCE)
    if lowered.startswith(("num_", "n_")):
        return None
    made = next((make for pattern, make in _TENSORS if re.fullmatch(pattern, lowered)), None)
    return made() if made is not None else None


def number_by_names(names: Sequence[str]) -> Node:
    """Return the whole number that a parameter with these names stands for."""
    return next((found for name in names if (found := _number(name)) is not None), number(8))


def fraction_by_names(names: Sequence[str]) -> Node:
    """Return the fraction that a parameter with these names stands for."""
    known = (by_name(name) for name in names)
    written = (k["text"] for k in known if k is not None and k["kind"] == "text")
    return text(next((t for t in written if re.fullmatch(r"[\d.]+", t)), "0.5"), SOURCE)


def is_number_name(names: Sequence[str]) -> bool:
    """Say whether the first of the names stands for a number."""
    return bool(names) and _number(names[0]) is not None


def _number(name: str) -> Node | None:
    lowered = name.lower().strip("_")
    for pattern, value in _NUMBERS:
        if re.fullmatch(pattern, lowered):
            return number(value, SOURCE)
    return number(FEATURES, SOURCE) if _DIMS.fullmatch(lowered) else None


def is_model_name(name: str) -> bool:
    """Say whether a name stands for a model, and for no loss."""
    return MODELS.fullmatch(name.lower()) is not None and not is_criterion(by_name(name))


def is_criterion(node: Node | None) -> bool:
    """Say whether a node is what stands for losses."""
    return node is not None and node["kind"] == "text" and "CrossEntropyLoss" in str(node["text"])


def is_any_layer(names: Sequence[str]) -> bool:
    """Say whether the names stand for a part of a network that could be any, and gives what it gets."""
    return bool(names) and _LAYERS.fullmatch(names[0].lower()) is not None


def is_optimizer_name(name: str) -> bool:
    """Say whether a name stands for an optimizer or a scheduler."""
    lowered = name.lower()
    return _OPTIMIZERS.fullmatch(lowered) is not None or _SCHEDULERS.fullmatch(lowered) is not None


def is_silent(node: Node) -> bool:
    """Say whether a node is what stands for loggers and their like."""
    return node["kind"] == "text" and node["text"] == SILENT


def is_plain(node: Node) -> bool:
    """Say whether a node is a number or a truth value in figures."""
    return node["kind"] == "text" and re.fullmatch(r"[\d.]+|False", str(node["text"])) is not None


def is_word(node: Node) -> bool:
    """Say whether a node is a text in quotes."""
    return node["kind"] == "text" and str(node["text"]).startswith("'")


def optimizer(name: str, models: list[str]) -> Node:
    """Return an optimizer over the parameters of another argument."""
    wanted = re.sub(r"optimi[sz]er|optim|opt", "", name).strip("_").lower()
    alike = [m for m in models if wanted and (m.lower().endswith(wanted) or m.lower().startswith(wanted))]
    owner = (alike or models or [""])[0]
    parameters = f"{owner}.parameters()" if owner else "[torch.nn.Parameter(torch.zeros(2))]"
    return text(f"torch.optim.SGD({parameters}, lr=0.01)", SOURCE)


def scheduler(optimizers: list[str]) -> Node:
    """Return a scheduler of another argument's learning rate."""
    owner = optimizers[0] if optimizers else "torch.optim.SGD([torch.zeros(1)])"
    return text(f"torch.optim.lr_scheduler.LambdaLR({owner}, lambda step: 1.0)", SOURCE)


def criterion() -> Node:
    """Return a loss."""
    others = ("torch.nn.MSELoss()", "torch.nn.BCEWithLogitsLoss()", "lambda *given: given[0].sum()")
    return with_others(text("torch.nn.CrossEntropyLoss()", SOURCE), *(text(t, SOURCE) for t in others))


def callables() -> list[Node]:
    """Return things to call that give back what they are called with."""
    return [text(IDENTITY, STAND_IN), text(ANY_CALL, STAND_IN)]


def by_names(names: Sequence[str]) -> Node | None:
    """Return what the first of some names stands for by convention that stands for anything."""
    return next((found for name in names if (found := by_name(name)) is not None), None)
