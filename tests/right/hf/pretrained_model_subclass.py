"""An own PreTrainedModel with its config: saved to a folder, loaded again, resumed with equal outputs."""
import tempfile

import torch
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput


class BagConfig(PretrainedConfig):
    model_type = "bag-of-tokens"

    def __init__(self, vocab_size=16, dim=16, dropout=0.1, **kwargs):
        self.vocab_size, self.dim, self.dropout = vocab_size, dim, dropout
        super().__init__(**kwargs)


class BagClassifier(PreTrainedModel):
    config_class = BagConfig

    def __init__(self, config: BagConfig):
        super().__init__(config)
        self.embed = nn.Embedding(config.vocab_size, config.dim, padding_idx=0)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(config.dim, config.num_labels)
        self.post_init()

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.02)
            nn.init.zeros_(module.bias)

    def forward(self, input_ids, attention_mask, labels=None):
        mask = attention_mask.unsqueeze(-1).to(self.classifier.weight.dtype)
        pooled = (self.embed(input_ids) * mask).sum(1) / mask.sum(1).clamp(min=1)
        logits = self.classifier(self.dropout(pooled))
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)


def batch(n, device):
    ids = torch.randint(1, 16, (n, 8), device=device)
    lengths = torch.randint(2, 9, (n, 1), device=device)
    mask = (torch.arange(8, device=device) < lengths).long()
    ids = ids * mask
    high = ((ids > 8) * mask).sum(1)
    return {"input_ids": ids, "attention_mask": mask, "labels": (2 * high > mask.sum(1)).long()}


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = BagClassifier(BagConfig(num_labels=2)).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-2)
    model.train()
    for step in range(80):
        loss = model(**batch(48, device)).loss
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 0:
            print(f"step {step}: {loss.item():.3f}")
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again = BagClassifier.from_pretrained(folder).to(device)
    model.eval()
    again.eval()
    with torch.no_grad():
        probe = batch(100, device)
        logits = again(**probe).logits
        torch.testing.assert_close(model(**probe).logits, logits)
    print(f"accuracy {(logits.argmax(-1) == probe['labels']).float().mean().item():.3f}")


if __name__ == "__main__":
    main()
