"""The parameters, in order, of the calls whose shapes are known here; the tensor itself comes first."""

from __future__ import annotations

from collections.abc import Mapping


def _table(rows: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(parameters.split()) for names, parameters in rows.items() for name in names.split()}


_LOSS = "size_average reduce reduction"
_POOL_WINDOW = "input kernel_size stride padding"

FUNCTIONS = _table(
    {
        "sum mean prod nansum nanmean all any logsumexp amax amin argmax argmin aminmax "
        "max min median nanmedian mode": "input dim keepdim",
        "norm vector_norm": "input p dim keepdim",
        "std var std_mean var_mean count_nonzero cumsum cumprod logcumsumexp cummax cummin unsqueeze squeeze unbind "
        "sort argsort glu": "input dim",
        "softmax log_softmax softmin": "input dim _stacklevel dtype",
        "gumbel_softmax": "input tau hard eps dim",
        "normalize": "input p dim eps",
        "kthvalue": "input k dim keepdim",
        "topk": "input k dim largest sorted",
        "quantile nanquantile": "input q dim keepdim",
        "histc": "input bins min max",
        "unique": "input sorted return_inverse return_counts dim",
        "cosine_similarity": "x1 x2 dim eps",
        "pairwise_distance": "x1 x2 p eps keepdim",
        "clamp": "input min max",
        "clamp_min": "input min",
        "clamp_max": "input max",
        "flatten": "input start_dim end_dim",
        "unflatten": "input dim sizes",
        "movedim": "input source destination",
        "repeat_interleave": "input repeats dim output_size",
        "diagonal": "input offset dim1 dim2",
        "diag": "input diagonal",
        "narrow": "input dim start length",
        "select": "input dim index",
        "pixel_shuffle": "input upscale_factor",
        "tensordot": "a b dims",
        "cat stack": "tensors dim",
        "split": "input split_size_or_sections dim",
        "chunk": "input chunks dim",
        "tensor_split": "input indices_or_sections dim",
        "gather index_select": "input dim index",
        "take_along_dim": "input indices dim",
        "one_hot": "input num_classes",
        "fft ifft rfft irfft hfft ihfft": "input n dim norm",
        "fft2 ifft2 rfft2 irfft2 hfft2 ihfft2 fftn ifftn rfftn irfftn hfftn ihfftn": "input s dim norm",
        "eye": "n m",
        "normal": "mean std size",
        "conv1d conv2d conv3d": "input weight bias stride padding dilation groups",
        "conv_transpose1d conv_transpose2d conv_transpose3d": "input weight bias stride padding output_padding groups "
        "dilation",
        "max_pool1d max_pool2d max_pool3d": f"{_POOL_WINDOW} dilation ceil_mode return_indices",
        "avg_pool1d avg_pool2d avg_pool3d": f"{_POOL_WINDOW} ceil_mode count_include_pad divisor_override",
        "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d": "input output_size",
        "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d": "input output_size return_indices",
        "group_norm": "input num_groups weight bias eps",
        "layer_norm": "input normalized_shape weight bias eps",
        "rms_norm": "input normalized_shape weight eps",
        "pad": "input pad mode value",
        "interpolate upsample": "input size scale_factor mode align_corners",
        "unfold": "input kernel_size dilation padding stride",
        "scaled_dot_product_attention": "query key value attn_mask dropout_p is_causal scale enable_gqa",
        "cross_entropy nll_loss": "input target weight size_average ignore_index reduce reduction label_smoothing",
        "binary_cross_entropy multilabel_soft_margin_loss": f"input target weight {_LOSS}",
        "binary_cross_entropy_with_logits": f"input target weight {_LOSS} pos_weight",
        "mse_loss l1_loss smooth_l1_loss kl_div soft_margin_loss multilabel_margin_loss": f"input target {_LOSS}",
        "huber_loss": "input target reduction delta weight",
        "poisson_nll_loss": "input target log_input full size_average eps reduce reduction",
        "gaussian_nll_loss": "input target var full eps reduction",
        "hinge_embedding_loss": f"input target margin {_LOSS}",
        "cosine_embedding_loss margin_ranking_loss": f"input1 input2 target margin {_LOSS}",
        "triplet_margin_loss": f"anchor positive negative margin p eps swap {_LOSS}",
        "multi_margin_loss": f"input target p margin weight {_LOSS}",
        "ctc_loss": "log_probs targets input_lengths target_lengths blank reduction zero_infinity",
    }
)

FORWARDS = _table(
    {"MultiheadAttention": "query key value key_padding_mask need_weights attn_mask average_attn_weights"}
)
"""The parameters of a module's ``forward`` behind its operands."""

CONSTRUCTORS = _table(
    {
        "GLU Softmax LogSoftmax Softmin": "dim",
        "CosineSimilarity": "dim eps",
        "PairwiseDistance": "p eps keepdim",
        "Flatten": "start_dim end_dim",
        "Unflatten": "dim unflattened_size",
        "PixelShuffle": "upscale_factor",
        "Linear": "in_features out_features",
        "LazyLinear": "out_features",
        "LazyConv1d LazyConv2d LazyConv3d": "out_channels kernel_size stride padding dilation groups",
        "MaxPool1d MaxPool2d MaxPool3d": "kernel_size stride padding dilation return_indices ceil_mode",
        "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d": "output_size",
        "AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d": "output_size return_indices",
        "SyncBatchNorm": "num_features",
        "Unfold": "kernel_size dilation padding stride",
        "Upsample UpsamplingNearest2d UpsamplingBilinear2d": "size scale_factor mode align_corners",
        "ZeroPad1d ZeroPad2d ZeroPad3d ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d "
        "ReplicationPad2d ReplicationPad3d CircularPad1d CircularPad2d CircularPad3d": "padding",
        "ConstantPad1d ConstantPad2d ConstantPad3d": "padding value",
        "LSTM GRU": "input_size hidden_size num_layers bias batch_first dropout bidirectional proj_size",
        "RNN": "input_size hidden_size num_layers nonlinearity bias batch_first dropout bidirectional",
        "Transformer": "d_model nhead num_encoder_layers num_decoder_layers dim_feedforward dropout",
    }
)
"""The constructors' parameters, for the classes whose own tables may leave them out."""
