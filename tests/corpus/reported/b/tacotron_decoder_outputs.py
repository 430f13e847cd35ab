# source: https://github.com/NVIDIA/tacotron2/pull/303
# target: Decoder.forward
# truth: squeeze() without dim also drops the batch axis when the batch holds one utterance (the last batch of an
#   epoch); gate_outputs.transpose(0, 1) then fails on a 1-D tensor
import torch
from torch import nn
from torch.nn import functional as F


class Prenet(nn.Module):
    def __init__(self, in_dim, sizes):
        super(Prenet, self).__init__()
        in_sizes = [in_dim] + sizes[:-1]
        self.layers = nn.ModuleList([nn.Linear(i, o, bias=False) for (i, o) in zip(in_sizes, sizes)])

    def forward(self, x):
        for linear in self.layers:
            x = F.dropout(F.relu(linear(x)), p=0.5, training=True)
        return x


class Decoder(nn.Module):
    def __init__(self, n_mel_channels=10, encoder_dim=24, prenet_dim=16, rnn_dim=32):
        super(Decoder, self).__init__()
        self.n_mel_channels = n_mel_channels
        self.rnn_dim = rnn_dim
        self.prenet = Prenet(n_mel_channels, [prenet_dim, prenet_dim])
        self.attention_query = nn.Linear(rnn_dim, encoder_dim)
        self.decoder_rnn = nn.LSTMCell(prenet_dim + encoder_dim, rnn_dim)
        self.linear_projection = nn.Linear(rnn_dim + encoder_dim, n_mel_channels)
        self.gate_layer = nn.Linear(rnn_dim + encoder_dim, 1)

    def get_go_frame(self, memory):
        return memory.new_zeros(memory.size(0), self.n_mel_channels)

    def initialize_decoder_states(self, memory):
        B = memory.size(0)
        self.decoder_hidden = memory.new_zeros(B, self.rnn_dim)
        self.decoder_cell = memory.new_zeros(B, self.rnn_dim)
        self.memory = memory

    def parse_decoder_inputs(self, decoder_inputs):
        return decoder_inputs.permute(2, 0, 1)

    def parse_decoder_outputs(self, mel_outputs, gate_outputs, alignments):
        alignments = torch.stack(alignments).transpose(0, 1)
        gate_outputs = torch.stack(gate_outputs).transpose(0, 1).contiguous()
        mel_outputs = torch.stack(mel_outputs).transpose(0, 1).contiguous()
        return mel_outputs.transpose(1, 2), gate_outputs, alignments

    def decode(self, decoder_input):
        query = self.attention_query(self.decoder_hidden).unsqueeze(1)
        weights = torch.softmax((query * self.memory).sum(-1), dim=1)
        context = torch.bmm(weights.unsqueeze(1), self.memory).squeeze(1)
        cell_input = torch.cat((decoder_input, context), -1)
        self.decoder_hidden, self.decoder_cell = self.decoder_rnn(cell_input, (self.decoder_hidden, self.decoder_cell))
        hidden_context = torch.cat((self.decoder_hidden, context), dim=1)
        return self.linear_projection(hidden_context), self.gate_layer(hidden_context), weights

    def forward(self, memory, decoder_inputs):
        decoder_input = self.get_go_frame(memory).unsqueeze(0)
        decoder_inputs = self.parse_decoder_inputs(decoder_inputs)
        decoder_inputs = self.prenet(torch.cat((decoder_input, decoder_inputs), dim=0))
        self.initialize_decoder_states(memory)
        mel_outputs, gate_outputs, alignments = [], [], []
        while len(mel_outputs) < decoder_inputs.size(0) - 1:
            mel_output, gate_output, attention_weights = self.decode(decoder_inputs[len(mel_outputs)])
            mel_outputs += [mel_output]
            gate_outputs += [gate_output.squeeze()]  # culprit
            alignments += [attention_weights]
        return self.parse_decoder_outputs(mel_outputs, gate_outputs, alignments)


class Tacotron2Loss(nn.Module):
    def forward(self, mel_out, gate_out, mel_target, gate_target):
        gate_loss = nn.BCEWithLogitsLoss()(gate_out.reshape(-1, 1), gate_target.reshape(-1, 1))
        return nn.MSELoss()(mel_out, mel_target) + gate_loss


def batches(n_utts, batch_size, frames=12):
    for start in range(0, n_utts, batch_size):
        b = min(batch_size, n_utts - start)
        gate = torch.zeros(b, frames)
        gate[:, -1] = 1.0
        yield torch.randn(b, 7, 24), torch.randn(b, 10, frames), gate


if __name__ == "__main__":
    torch.manual_seed(0)
    decoder, criterion = Decoder(), Tacotron2Loss()
    optimizer = torch.optim.Adam(decoder.parameters(), lr=1e-3, weight_decay=1e-6)
    for epoch in range(2):
        for i, (memory, mels, gates) in enumerate(batches(13, 4)):
            mel_out, gate_out, _ = decoder(memory, mels)
            loss = criterion(mel_out, gate_out, mels, gates)
            decoder.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
            optimizer.step()
            print("epoch {} iter {} loss {:.4f}".format(epoch, i, loss.item()))
