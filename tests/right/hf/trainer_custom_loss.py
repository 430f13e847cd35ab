"""A Trainer whose compute_loss weighs classes, for a plain module that returns a ModelOutput."""
import tempfile
from dataclasses import dataclass
from typing import Optional

import torch
from torch import nn
from torch.utils.data import TensorDataset
from transformers import Trainer, TrainingArguments, set_seed
from transformers.utils import ModelOutput


@dataclass
class ClassifierOutput(ModelOutput):
    logits: Optional[torch.FloatTensor] = None


class Classifier(nn.Module):
    def __init__(self, n_in=6, classes=2):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(n_in, 32), nn.ReLU(), nn.Linear(32, classes))

    def forward(self, features, labels=None):
        return ClassifierOutput(logits=self.net(features))


class WeightedTrainer(Trainer):
    def __init__(self, *args, class_weights, **kwargs):
        super().__init__(*args, **kwargs)
        self.class_weights = class_weights

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs["labels"]
        outputs = model(**inputs)
        weight = self.class_weights.to(outputs.logits.device)
        loss = nn.functional.cross_entropy(outputs.logits, labels, weight=weight)
        return (loss, outputs) if return_outputs else loss


def collate(rows):
    x, y = zip(*rows)
    return {"features": torch.stack(x), "labels": torch.stack(y)}


def rare_events(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = (torch.rand(n, generator=g) < 0.15).long()
    return TensorDataset(torch.randn(n, 6, generator=g) + y.unsqueeze(1) * 1.5, y)


if __name__ == "__main__":
    set_seed(1)
    train, test = rare_events(256, 0), rare_events(128, 1)
    counts = torch.bincount(train.tensors[1], minlength=2).clamp(min=1)
    weights = counts.sum() / (2.0 * counts)
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder, max_steps=50, per_device_train_batch_size=32, learning_rate=1e-2, max_grad_norm=1.0,
            remove_unused_columns=False, label_names=["labels"], report_to="none", dataloader_pin_memory=torch.cuda.is_available(), save_strategy="no", disable_tqdm=True, logging_steps=25,
        )
        trainer = WeightedTrainer(
            model=Classifier(), args=args, train_dataset=train, eval_dataset=test, data_collator=collate, class_weights=weights
        )
        trainer.train()
        output = trainer.predict(test)
    guess = output.predictions.argmax(-1)
    rare = output.label_ids == 1
    print(f"recall of the rare class {(guess[rare] == 1).mean():.2f}, loss {output.metrics['test_loss']:.3f}")
