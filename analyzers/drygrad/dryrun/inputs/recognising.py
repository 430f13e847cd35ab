"""What a value must be, by the methods and attributes that are used of it."""

from __future__ import annotations

from drygrad.dryrun.inputs import conventions
from drygrad.dryrun.inputs.usage import Usage

OF_TENSORS = frozenset(
    "shape size dim ndim dtype device to view reshape permute transpose unsqueeze squeeze flatten sum mean "
    "numel float "
    "long contiguous detach cpu cuda clone new_zeros new_ones new_full new_tensor expand expand_as repeat "
    "chunk split T "
    "mT item backward requires_grad requires_grad_ grad sigmoid softmax log_softmax exp log pow abs max min argmax "
    "argmin std var norm masked_fill type unbind matmul bmm is_cuda half bool int double any all nonzero cumsum topk "
    "sort argsort unique gather scatter index_select index_add_ square sqrt clamp clamp_min clamp_max round floor amax "
    "amin view_as reshape_as type_as is_floating_point element_size stride storage repeat_interleave roll flip "
    "new_empty masked_select lt gt eq ne ge le logsumexp diff tril triu unfold fill_ zero_ copy_ add_ mul_ sub_ div_ "
    "add mul sub div neg ndimension data numpy is_complex real imag reciprocal prod tanh relu narrow movedim "
    "unflatten rsqrt erf histc bincount cumprod layout is_sparse to_dense swapaxes retain_grad tolist "
    "nelement dot mm mv outer take diagonal".split()
)
OF_MODULES = frozenset(
    "parameters train eval state_dict load_state_dict named_parameters modules named_modules children named_children "
    "zero_grad training buffers named_buffers register_forward_hook register_buffer apply requires_grad_ to cuda cpu "
    "half float double forward module bfloat16 share_memory get_submodule compile".split()
)
_ONLY_OF_MODULES = frozenset(
    "parameters train eval state_dict named_parameters modules named_modules children named_children zero_grad "
    "load_state_dict buffers named_buffers register_forward_hook register_full_backward_hook register_forward_pre_hook "
    "get_submodule".split()
)
_OF_OPTIMIZERS = frozenset("step zero_grad param_groups state state_dict load_state_dict add_param_group".split())
_OF_SCHEDULERS = frozenset("step get_last_lr get_lr last_epoch state_dict load_state_dict".split())
_OF_MAPPINGS = frozenset("keys items values get pop setdefault update copy".split())
_OF_TEXTS = frozenset(
    "startswith endswith lower upper format strip encode split replace join splitlines rstrip lstrip isdigit title "
    "partition rpartition".split()
)
_OF_PATHS = frozenset(
    "exists is_file is_dir glob rglob iterdir mkdir parent stem suffix name open read_text write_text joinpath unlink "
    "with_suffix parents read_bytes resolve".split()
)
_OF_LISTS = frozenset("append extend insert sort reverse index count pop copy".split())
_OF_DEQUES = frozenset("appendleft popleft maxlen rotate append extend".split())
_OF_LINEARS = frozenset(("weight", "bias", "in_features", "out_features"))
_OF_ARRAYS = frozenset("astype ravel tolist tobytes copy mean std min max sum reshape shape dtype T ndim size".split())
_OF_LOADERS = frozenset(("dataset", "batch_size", "sampler", "batch_sampler", "num_workers", "drop_last"))
_OF_SCALERS = frozenset("scale unscale_ step update is_enabled get_scale state_dict load_state_dict".split())
_OF_GENERATORS = frozenset("manual_seed seed initial_seed get_state set_state device".split())
_OF_DISTRIBUTIONS = frozenset("log_prob sample rsample entropy mean stddev".split())


def is_used(usage: Usage) -> bool:
    """Say whether anything is done with a value."""
    return bool(
        usage.used or usage.kinds or usage.width or usage.keys or usage.elements or usage.item or usage.ranks
        or len(usage.names) > 1
    )  # fmt: skip


def is_tensor(usage: Usage) -> bool:
    """Say whether a value is surely a tensor."""
    distinct = usage.used & (OF_TENSORS - OF_MODULES - _OF_LISTS - {"get", "copy"})
    return bool(
        usage.ranks or usage.least_rank or distinct or usage.kinds & {"tensor", "ids", "classes", "alike", "unit"}
    )


def is_module(usage: Usage) -> bool:
    """Say whether a value is surely a module."""
    return bool(usage.used & _ONLY_OF_MODULES) and not is_optimizer(usage)


def is_optimizer(usage: Usage) -> bool:
    """Say whether a value is surely an optimizer."""
    steps = "step" in usage.methods and bool(usage.used & {"zero_grad", "param_groups"})
    return (steps or "param_groups" in usage.attributes) and usage.used <= _OF_OPTIMIZERS


def is_scheduler(usage: Usage) -> bool:
    """Say whether a value is surely a scheduler of learning rates."""
    return bool(usage.used & {"get_last_lr", "last_epoch", "get_lr"}) and usage.used <= _OF_SCHEDULERS


def plain_text(usage: Usage) -> str | None:
    """Return an expression for what is surely one of Python's or torch's plain objects; None where it is not."""
    used = usage.used
    if not used:
        return None
    for members, distinct, written in (
        (_OF_SCALERS, {"scale", "unscale_"}, "torch.amp.GradScaler(enabled=False)"),
        (_OF_TEXTS, _OF_TEXTS - {"index", "count"}, "'name'"),
        (_OF_PATHS, {"exists", "is_file", "mkdir", "glob", "rglob", "iterdir", "read_text", "with_suffix", "stem"},
         "__import__('pathlib').Path('dry-run.tmp')"),
        (_OF_DEQUES, {"appendleft", "popleft", "maxlen"}, "__import__('collections').deque(maxlen=100)"),
        (_OF_GENERATORS, {"manual_seed", "initial_seed", "get_state"}, "torch.Generator()"),
        (_OF_LISTS, {"append", "extend", "insert"}, "[]"),
        (_OF_DISTRIBUTIONS, {"log_prob", "rsample", "entropy"},
         "torch.distributions.Normal(torch.zeros(2, 4), torch.ones(2, 4))"),
    ):  # fmt: skip
        if used <= members and used & distinct:
            return written
    if {"weight", "bias"} & used and used <= _OF_LINEARS | OF_MODULES:
        return "torch.nn.Linear(64, 64)"
    return None


def is_mapping(usage: Usage) -> bool:
    """Say whether a value is surely a mapping."""
    return bool(usage.keys or "mapping" in usage.kinds or usage.used & {"keys", "items", "setdefault"})


def is_loader(usage: Usage) -> bool:
    """Say whether a value is asked for what only a loader has."""
    return bool(usage.used & _OF_LOADERS) and usage.used <= _OF_LOADERS and not _is_configuration(usage)


def _is_configuration(usage: Usage) -> bool:
    return any(conventions.CONFIGS.fullmatch(name.lower()) for name in usage.names)


def is_array(usage: Usage) -> bool:
    """Say whether a value is surely an array of numpy's."""
    return "array" in usage.kinds or "astype" in usage.methods


def own_members(usage: Usage) -> set[str]:
    """Return what is used of a value that neither tensors nor modules nor mappings have."""
    known = OF_TENSORS | OF_MODULES | _OF_MAPPINGS | _OF_LISTS | _OF_OPTIMIZERS
    return {name for name in usage.used if name not in known}
