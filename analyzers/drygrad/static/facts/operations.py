"""Tables of torch operations: what they are called, what they take."""

from __future__ import annotations

VIEWS = frozenset(
    "view view_as reshape reshape_as permute transpose t squeeze unsqueeze expand expand_as narrow select diagonal "
    "flatten unflatten movedim moveaxis swapaxes swapdims unfold contiguous detach getitem chunk split unbind "
    "real imag positive ravel".split()
)
"""Operations whose result may share its operand's memory."""

COPIES_IF_SCATTERED = frozenset({"contiguous", "flatten", "ravel", "reshape", "reshape_as"})
"""Views that copy where the memory of their operand is not in order."""
SCATTERS = frozenset("expand expand_as getitem movedim narrow permute select t transpose unfold".split())
"""Views whose memory may not be in order."""

FACTORIES = frozenset(
    "zeros ones empty full rand randn randint arange linspace logspace eye randperm tensor as_tensor from_numpy "
    "zeros_like ones_like empty_like full_like rand_like randn_like randint_like normal bernoulli multinomial "
    "new_zeros new_ones new_empty new_full new_tensor tril_indices triu_indices range hann_window".split()
)

CASTS = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "long": "int64", "int": "int32",
    "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool",
}  # fmt: skip
"""Tensor methods that change the dtype."""

DTYPES = {
    name: full
    for full, names in {
        "float32": "float32 float FloatTensor", "float64": "float64 double DoubleTensor",
        "float16": "float16 half HalfTensor", "bfloat16": "bfloat16 BFloat16Tensor",
        "int64": "int64 long LongTensor", "int32": "int32 int IntTensor", "int16": "int16 short ShortTensor",
        "int8": "int8 CharTensor", "uint8": "uint8 ByteTensor", "bool": "bool BoolTensor",
        "complex64": "complex64 cfloat", "complex128": "complex128 cdouble",
    }.items()
    for name in names.split()
}  # fmt: skip
"""``torch.<name>`` to the full dtype name."""

AUTOCAST_LOWERS = frozenset(
    "linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d matmul mm bmm addmm addbmm baddbmm "
    "scaled_dot_product_attention".split()
)
"""Operations that autocast runs in its own dtype, on every device."""
AUTOCAST_KEEPS = frozenset(
    "float double half bfloat16 to type add sub mul div neg abs relu relu6 leaky_relu sigmoid tanh clamp clamp_min "
    "clamp_max maximum minimum masked_fill fill zero dropout max_pool1d max_pool2d max_pool3d sqrt amax amin max min "
    "clone repeat roll flip gather index_select mean getitem setitem triu tril positive".split()
) | VIEWS  # fmt: skip
"""Operations that autocast leaves in the dtype of their operands, on every device."""

NO_METHODS_OF_TORCH = frozenset(
    "arange block_diag broadcast_tensors bucketize cartesian_prod cat cdist column_stack combinations concat concatenate "
    "dstack einsum empty_like full_like gradient hstack isin linspace meshgrid ones_like rand_like randint_like randn_like "
    "searchsorted stack std_mean tensordot trapezoid var_mean vstack zeros_like".split()
)
NO_METHODS = NO_METHODS_OF_TORCH | frozenset(
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d "
    "adaptive_max_pool3d affine_grid avg_pool1d avg_pool2d avg_pool3d batch_norm binary_cross_entropy "
    "binary_cross_entropy_with_logits celu conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d "
    "cosine_similarity cross_entropy ctc_loss dropout dropout1d dropout2d dropout3d elu embedding gelu glu grid_sample "
    "group_norm gumbel_softmax hardsigmoid hardswish hardtanh huber_loss instance_norm interpolate kl_div l1_loss "
    "layer_norm leaky_relu linear logsigmoid lp_pool2d max_pool1d max_pool2d max_pool3d mish mse_loss nll_loss normalize "
    "one_hot pad pairwise_distance pixel_shuffle relu6 rms_norm scaled_dot_product_attention selu silu smooth_l1_loss "
    "softmin softplus softshrink softsign tanhshrink upsample".split()
)
"""Functions of ``torch`` and ``torch.nn.functional`` that tensors have no method for."""

LOSSES = frozenset(
    "cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy kl_div "
    "binary_cross_entropy_with_logits poisson_nll_loss gaussian_nll_loss ctc_loss hinge_embedding_loss "
    "cosine_embedding_loss margin_ranking_loss triplet_margin_loss multi_margin_loss multilabel_margin_loss "
    "soft_margin_loss multilabel_soft_margin_loss".split()
)

OPERATORS = {
    "Add": "add", "Sub": "sub", "Mult": "mul", "Div": "div", "FloorDiv": "floor_divide", "Mod": "remainder",
    "Pow": "pow", "MatMult": "matmul", "BitAnd": "bitwise_and", "BitOr": "bitwise_or", "BitXor": "bitwise_xor",
    "LShift": "bitwise_left_shift", "RShift": "bitwise_right_shift",
    "Eq": "eq", "NotEq": "ne", "Lt": "lt", "LtE": "le", "Gt": "gt", "GtE": "ge",
    "USub": "neg", "UAdd": "positive", "Invert": "bitwise_not",
}  # fmt: skip
"""Python operators (``ast`` class names) to the operations they call on tensors."""

ALIASES = {
    "clip": "clamp", "concat": "cat", "concatenate": "cat", "multiply": "mul", "divide": "div", "true_divide": "div",
    "subtract": "sub", "negative": "neg", "absolute": "abs", "arccos": "acos", "arcsin": "asin", "arctan": "atan",
    "special_expit": "sigmoid", "expit": "sigmoid", "greater": "gt", "less": "lt", "greater_equal": "ge",
    "less_equal": "le", "not_equal": "ne", "swapaxes": "transpose", "swapdims": "transpose", "type_as": "to",
    "clamp_min": "clamp_min", "clamp_max": "clamp_max", "vector_norm": "norm", "matrix_norm": "norm",
    "special_softmax": "softmax", "special_log_softmax": "log_softmax", "inner": "inner", "inverse": "inv",
    "moveaxis": "movedim", "dropout1d": "dropout", "dropout2d": "dropout", "dropout3d": "dropout",
}  # fmt: skip

SIGNATURES: dict[str, tuple[str, ...]] = {
    name: tuple(parameters.split())
    for names, parameters in {
        "cross_entropy": "input target weight size_average ignore_index reduce reduction label_smoothing",
        "nll_loss": "input target weight size_average ignore_index reduce reduction",
        "binary_cross_entropy": "input target weight size_average reduce reduction",
        "binary_cross_entropy_with_logits": "input target weight size_average reduce reduction pos_weight",
        "mse_loss l1_loss smooth_l1_loss": "input target size_average reduce reduction beta",
        "huber_loss": "input target reduction delta weight",
        "kl_div": "input target size_average reduce reduction log_target",
        "poisson_nll_loss": "input target log_input full size_average eps reduce reduction",
        "ctc_loss": "log_probs targets input_lengths target_lengths blank reduction zero_infinity",
        "softmax log_softmax softmin": "input dim _stacklevel dtype",
        "gumbel_softmax": "logits tau hard eps dim",
        "dropout alpha_dropout feature_alpha_dropout": "input p training inplace",
        "relu relu6 selu silu mish hardswish hardsigmoid": "input inplace",
        "leaky_relu": "input negative_slope inplace",
        "elu celu": "input alpha inplace",
        "gelu": "input approximate",
        "linear": "input weight bias",
        "conv1d conv2d conv3d": "input weight bias stride padding dilation groups",
        "embedding": "input weight padding_idx max_norm norm_type scale_grad_by_freq sparse",
        "layer_norm": "input normalized_shape weight bias eps",
        "batch_norm": "input running_mean running_var weight bias training momentum eps",
        "max_pool1d max_pool2d max_pool3d": "input kernel_size stride padding dilation ceil_mode return_indices",
        "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d": "input output_size return_indices",
        "normalize": "input p dim eps out",
        "cosine_similarity": "x1 x2 dim eps",
        "scaled_dot_product_attention": "query key value attn_mask dropout_p is_causal",
        "where": "condition input other",
        "masked_fill": "input mask value",
        "clamp": "input min max",
        "clamp_min": "input min",
        "clamp_max": "input max",
        "maximum minimum": "input other",
        "div": "input other",
        "norm": "input p dim keepdim",
        "sum mean": "input dim keepdim dtype",
        "std var": "input dim correction keepdim",
        "max min argmax argmin amax amin": "input dim keepdim",
        "backward": "input gradient retain_graph create_graph inputs",
        "grad": "outputs inputs grad_outputs retain_graph create_graph",
        "to": "input device dtype non_blocking copy",
        "cuda": "input device non_blocking",
        "tensor as_tensor": "data dtype device requires_grad",
        "nan_to_num": "input nan posinf neginf",
        "cat stack": "tensors dim",
        "one_hot": "input num_classes",
        "pow": "input exponent",
        "load": "f map_location pickle_module weights_only",
        "clip_grad_norm_": "parameters max_norm norm_type error_if_nonfinite foreach",
        "clip_grad_value_": "parameters clip_value foreach",
    }.items()
    for name in names.split()
}
"""Parameter names in order, the tensor itself first, the same for function, method and module call."""

OTHER_SIGNATURES: dict[str, tuple[str, ...]] = {
    "torch.norm": ("input", "p", "dim", "keepdim"),
    "torch.linalg.norm": ("input", "ord", "dim", "keepdim"),
    "torch.linalg.vector_norm": ("input", "ord", "dim", "keepdim"),
    "torch.linalg.matrix_norm": ("input", "ord", "dim", "keepdim"),
}

MODULE_OPERATIONS = {
    "Softmax": "softmax", "LogSoftmax": "log_softmax", "Softmin": "softmin", "Sigmoid": "sigmoid", "Tanh": "tanh",
    "LogSigmoid": "logsigmoid", "Hardtanh": "hardtanh", "Hardswish": "hardswish", "Hardsigmoid": "hardsigmoid",
    "Softplus": "softplus", "Softsign": "softsign", "Softshrink": "softshrink", "Hardshrink": "hardshrink",
    "ReLU": "relu", "ReLU6": "relu6", "LeakyReLU": "leaky_relu", "ELU": "elu", "CELU": "celu", "SELU": "selu",
    "GELU": "gelu", "SiLU": "silu", "Mish": "mish", "GLU": "glu", "PReLU": "prelu", "Tanhshrink": "tanhshrink",
    "Linear": "linear", "Bilinear": "bilinear", "Embedding": "embedding", "EmbeddingBag": "embedding_bag",
    "Conv1d": "conv1d", "Conv2d": "conv2d", "Conv3d": "conv3d", "ConvTranspose1d": "conv_transpose1d",
    "ConvTranspose2d": "conv_transpose2d", "ConvTranspose3d": "conv_transpose3d",
    "BatchNorm1d": "batch_norm", "BatchNorm2d": "batch_norm", "BatchNorm3d": "batch_norm", "SyncBatchNorm": "batch_norm",
    "LayerNorm": "layer_norm", "GroupNorm": "group_norm", "RMSNorm": "rms_norm", "InstanceNorm1d": "instance_norm",
    "InstanceNorm2d": "instance_norm", "InstanceNorm3d": "instance_norm", "LocalResponseNorm": "local_response_norm",
    "MaxPool1d": "max_pool1d", "MaxPool2d": "max_pool2d", "MaxPool3d": "max_pool3d", "AvgPool1d": "avg_pool1d",
    "AvgPool2d": "avg_pool2d", "AvgPool3d": "avg_pool3d", "AdaptiveAvgPool1d": "adaptive_avg_pool1d",
    "AdaptiveAvgPool2d": "adaptive_avg_pool2d", "AdaptiveAvgPool3d": "adaptive_avg_pool3d",
    "AdaptiveMaxPool1d": "adaptive_max_pool1d", "AdaptiveMaxPool2d": "adaptive_max_pool2d",
    "Dropout": "dropout", "Dropout1d": "dropout", "Dropout2d": "dropout", "Dropout3d": "dropout",
    "AlphaDropout": "alpha_dropout", "Flatten": "flatten", "Unflatten": "unflatten", "Upsample": "interpolate",
    "PixelShuffle": "pixel_shuffle", "ZeroPad2d": "pad", "Identity": "identity",
    "CrossEntropyLoss": "cross_entropy", "NLLLoss": "nll_loss", "MSELoss": "mse_loss", "L1Loss": "l1_loss",
    "SmoothL1Loss": "smooth_l1_loss", "HuberLoss": "huber_loss", "BCELoss": "binary_cross_entropy",
    "BCEWithLogitsLoss": "binary_cross_entropy_with_logits", "KLDivLoss": "kl_div",
    "PoissonNLLLoss": "poisson_nll_loss", "GaussianNLLLoss": "gaussian_nll_loss", "CTCLoss": "ctc_loss",
    "HingeEmbeddingLoss": "hinge_embedding_loss", "CosineEmbeddingLoss": "cosine_embedding_loss",
    "MarginRankingLoss": "margin_ranking_loss", "TripletMarginLoss": "triplet_margin_loss",
    "MultiMarginLoss": "multi_margin_loss", "SoftMarginLoss": "soft_margin_loss",
    "CosineSimilarity": "cosine_similarity", "PairwiseDistance": "pairwise_distance",
    "LSTM": "lstm", "GRU": "gru", "RNN": "rnn", "LSTMCell": "lstm_cell", "GRUCell": "gru_cell", "RNNCell": "rnn_cell",
    "MultiheadAttention": "multi_head_attention", "Transformer": "transformer",
    "TransformerEncoder": "transformer_encoder", "TransformerEncoderLayer": "transformer_encoder_layer",
    "TransformerDecoder": "transformer_decoder", "TransformerDecoderLayer": "transformer_decoder_layer",
}  # fmt: skip
"""``torch.nn`` classes to the operation that calling an instance performs."""

PARAMETERLESS = frozenset(
    name
    for name, operation in MODULE_OPERATIONS.items()
    if operation.endswith("_loss") or "pool" in operation or operation in {
        "softmax", "log_softmax", "softmin", "sigmoid", "tanh", "logsigmoid", "hardtanh", "hardswish", "hardsigmoid",
        "softplus", "softsign", "softshrink", "hardshrink", "relu", "relu6", "leaky_relu", "elu", "celu", "selu", "gelu",
        "silu", "mish", "glu", "tanhshrink", "dropout", "alpha_dropout", "flatten", "unflatten", "interpolate",
        "pixel_shuffle", "pad", "identity", "cross_entropy", "binary_cross_entropy", "kl_div",
        "binary_cross_entropy_with_logits", "cosine_similarity", "pairwise_distance", "local_response_norm",
    }
)  # fmt: skip
"""``torch.nn`` classes without parameters: their output requires grad only if their input does."""

CONSTRUCTORS: dict[str, tuple[str, ...]] = {
    name: tuple(parameters.split())
    for names, parameters in {
        "Softmax LogSoftmax Softmin": "dim",
        "ReLU ReLU6 SELU SiLU Mish Hardswish Hardsigmoid": "inplace",
        "LeakyReLU": "negative_slope inplace",
        "ELU CELU": "alpha inplace",
        "GELU": "approximate",
        "Dropout Dropout1d Dropout2d Dropout3d AlphaDropout": "p inplace",
        "Linear": "in_features out_features bias device dtype",
        "Bilinear": "in1_features in2_features out_features bias device dtype",
        "Conv1d Conv2d Conv3d": "in_channels out_channels kernel_size stride padding dilation groups bias padding_mode "
        "device dtype",
        "ConvTranspose1d ConvTranspose2d ConvTranspose3d": "in_channels out_channels kernel_size stride padding "
        "output_padding groups bias dilation padding_mode device dtype",
        "MaxPool1d MaxPool2d MaxPool3d": "kernel_size stride padding dilation return_indices ceil_mode",
        "AvgPool1d": "kernel_size stride padding ceil_mode count_include_pad",
        "AvgPool2d AvgPool3d": "kernel_size stride padding ceil_mode count_include_pad divisor_override",
        "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d": "output_size "
        "return_indices",
        "BatchNorm1d BatchNorm2d BatchNorm3d InstanceNorm1d InstanceNorm2d InstanceNorm3d": "num_features eps momentum "
        "affine track_running_stats device dtype",
        "LayerNorm": "normalized_shape eps elementwise_affine bias device dtype",
        "GroupNorm": "num_groups num_channels eps affine device dtype",
        "RMSNorm": "normalized_shape eps elementwise_affine device dtype",
        "Embedding": "num_embeddings embedding_dim padding_idx max_norm norm_type scale_grad_by_freq sparse _weight "
        "_freeze device dtype",
        "Flatten": "start_dim end_dim",
        "Unflatten": "dim unflattened_size",
        "LSTM GRU RNN": "input_size hidden_size num_layers bias batch_first dropout bidirectional proj_size",
        "LSTMCell GRUCell RNNCell": "input_size hidden_size bias",
        "MultiheadAttention": "embed_dim num_heads dropout bias add_bias_kv add_zero_attn kdim vdim batch_first",
        "TransformerEncoderLayer TransformerDecoderLayer": "d_model nhead dim_feedforward dropout activation "
        "layer_norm_eps batch_first norm_first bias",
        "CrossEntropyLoss": "weight size_average ignore_index reduce reduction label_smoothing",
        "NLLLoss": "weight size_average ignore_index reduce reduction",
        "MSELoss L1Loss": "size_average reduce reduction",
        "SmoothL1Loss": "size_average reduce reduction beta",
        "HuberLoss": "reduction delta",
        "BCELoss": "weight size_average reduce reduction",
        "BCEWithLogitsLoss": "weight size_average reduce reduction pos_weight",
        "KLDivLoss": "size_average reduce reduction log_target",
        "PoissonNLLLoss": "log_input full size_average eps reduce reduction",
        "CTCLoss": "blank reduction zero_infinity",
        "CosineSimilarity": "dim eps",
        "Upsample": "size scale_factor mode align_corners recompute_scale_factor",
        "PixelShuffle": "upscale_factor",
    }.items()
    for name in names.split()
}
"""Constructor parameters of ``torch.nn`` classes, in order."""

TENSOR_METHODS = frozenset(
    "exp exp_ log log_ log2 log10 log1p sqrt sqrt_ rsqrt sigmoid sigmoid_ tanh tanh_ relu relu_ softmax log_softmax "
    "logsumexp backward detach detach_ requires_grad_ retain_grad cuda unsqueeze unsqueeze_ matmul bmm mm masked_fill "
    "masked_fill_ masked_select index_select index_add_ index_copy_ index_fill_ scatter scatter_ scatter_add "
    "scatter_add_ gather permute clamp clamp_ clamp_min clamp_max clamp_min_ clamp_max_ view_as expand expand_as "
    "contiguous new_zeros new_ones new_empty new_full new_tensor zero_ fill_ add_ sub_ mul_ div_ pow_ copy_ normal_ "
    "uniform_ bernoulli_ random_ abs_ neg_ floor_ ceil_ round_ addcmul addcmul_ addcdiv addcdiv_ lerp lerp_ half "
    "bfloat16 chunk unbind narrow erf erfinv reciprocal lt_ gt_ argwhere cumprod amax amin is_cuda register_hook "
    "share_memory_ pin_memory squeeze_ transpose_ t_ clip_ nan_to_num nan_to_num_ numel new_tensor type_as "
    "norm square addmm baddbmm repeat_interleave unfold movedim sign sign_ logical_not logical_and logical_or bitwise_not".split()
)
"""Method names that, on a value of unknown type, mean a tensor: numpy, pandas and Python's own types have none of them."""
