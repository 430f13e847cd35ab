# source: https://github.com/thuml/Time-Series-Library/pull/621
import math

import torch
import torch.nn as nn


class MovingAvg(nn.Module):
    """Moving average block to highlight the trend of time series."""

    def __init__(self, kernel_size):
        super(MovingAvg, self).__init__()
        self.kernel_size = kernel_size
        self.avg = nn.AvgPool1d(kernel_size=kernel_size, stride=1, padding=0)

    def forward(self, x):
        front = x[:, 0:1, :].repeat(1, (self.kernel_size - 1) // 2, 1)
        end = x[:, -1:, :].repeat(1, (self.kernel_size - 1) // 2, 1)
        return self.avg(torch.cat([front, x, end], dim=1).permute(0, 2, 1)).permute(0, 2, 1)


class AutoCorrelation(nn.Module):
    def __init__(self, factor=1, attention_dropout=0.1):
        super(AutoCorrelation, self).__init__()
        self.factor = factor
        self.dropout = nn.Dropout(attention_dropout)

    def time_delay_agg_full(self, values, corr):
        batch, head, channel, length = values.shape
        init_index = torch.arange(length).view(1, 1, 1, -1).repeat(batch, head, channel, 1).to(values.device)
        top_k = int(self.factor * math.log(length))
        weights, delay = torch.topk(corr, top_k, dim=-1)
        tmp_corr = torch.softmax(weights, dim=-1)
        tmp_values = values.repeat(1, 1, 1, 2)
        delays_agg = torch.zeros_like(values)
        for i in range(top_k):
            tmp_delay = init_index + delay[..., i].unsqueeze(-1)
            pattern = torch.gather(tmp_values, dim=-1, index=tmp_delay)
            delays_agg = delays_agg + pattern * tmp_corr[..., i].unsqueeze(-1)
        return delays_agg

    def forward(self, queries, keys, values):
        L = queries.shape[1]
        q_fft = torch.fft.rfft(queries.permute(0, 2, 3, 1).contiguous(), dim=-1)
        k_fft = torch.fft.rfft(keys.permute(0, 2, 3, 1).contiguous(), dim=-1)
        corr = torch.fft.irfft(q_fft * torch.conj(k_fft), n=L, dim=-1)
        out = self.time_delay_agg_full(self.dropout(values).permute(0, 2, 3, 1).contiguous(), corr)
        return out.permute(0, 3, 1, 2).contiguous()


class AutoCorrelationLayer(nn.Module):
    def __init__(self, correlation, d_model, n_heads):
        super(AutoCorrelationLayer, self).__init__()
        self.inner_correlation = correlation
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out_projection = nn.Linear(d_model, d_model)
        self.n_heads = n_heads

    def forward(self, x):
        B, L, D = x.shape
        q, k, v = (t.view(B, L, self.n_heads, -1) for t in self.qkv(x).chunk(3, dim=-1))
        return self.out_projection(self.inner_correlation(q, k, v).view(B, L, D))


class Model(nn.Module):
    def __init__(self, configs):
        super(Model, self).__init__()
        self.pred_len = configs["pred_len"]
        self.embed = nn.Linear(configs["enc_in"], configs["d_model"])
        self.attention = AutoCorrelationLayer(AutoCorrelation(configs["factor"]), configs["d_model"], configs["n_heads"])
        self.decomp = MovingAvg(configs["moving_avg"])
        self.projection = nn.Linear(configs["d_model"], configs["enc_in"])
        self.horizon = nn.Linear(configs["seq_len"], configs["pred_len"])

    def forward(self, x_enc):
        mean = x_enc.mean(1, keepdim=True)
        x = self.embed(x_enc - mean)
        x = x + self.attention(x)
        x = x - self.decomp(x)
        return self.horizon(self.projection(x).transpose(1, 2)).transpose(1, 2) + mean


if __name__ == "__main__":
    torch.manual_seed(2021)
    configs = dict(seq_len=48, pred_len=12, enc_in=3, d_model=16, n_heads=2, factor=1, moving_avg=9)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    model = Model(configs).float().to(device)
    optim = torch.optim.Adam(model.parameters(), lr=1e-2)
    t = torch.arange(60.0, device=device)
    series = torch.stack([torch.sin(t / p) for p in (3.0, 5.0, 8.0)], dim=-1).repeat(8, 1, 1)
    for it in range(8):
        loss = nn.functional.mse_loss(model(series[:, :48]), series[:, 48:])
        optim.zero_grad()
        loss.backward()
        optim.step()
    print("train loss %.5f" % loss.item())
