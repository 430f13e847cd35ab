"""The Trainer of transformers with a tiny BERT made from a config, on a synthetic task."""
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

PAD, CLS = 0, 1


class TokenTask(Dataset):
    """Does token 5 occur?"""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.items = []
        for i in range(n):
            length = int(torch.randint(4, 10, (1,), generator=g))
            tokens = torch.randint(6, 12, (length,), generator=g)
            if i % 2 == 1:
                tokens[int(torch.randint(length, (1,), generator=g))] = 5
            ids = torch.full((10,), PAD)
            ids[0], ids[1 : length + 1] = CLS, tokens[: 9]
            self.items.append({"input_ids": ids, "attention_mask": (ids != PAD).long(), "labels": i % 2})

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def compute_metrics(prediction):
    guess = prediction.predictions.argmax(axis=-1)
    return {"accuracy": float((guess == prediction.label_ids).mean())}


def main():
    set_seed(0)
    config = BertConfig(
        vocab_size=12, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=16, pad_token_id=PAD, num_labels=2, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )
    model = BertForSequenceClassification(config)
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder, num_train_epochs=4, per_device_train_batch_size=16, per_device_eval_batch_size=64,
            learning_rate=3e-3, eval_strategy="epoch", save_strategy="no", logging_strategy="epoch",
            report_to="none", dataloader_pin_memory=torch.cuda.is_available(), disable_tqdm=True, seed=0,
        )
        trainer = Trainer(
            model=model, args=args, train_dataset=TokenTask(160, 0), eval_dataset=TokenTask(64, 1), compute_metrics=compute_metrics
        )
        trainer.train()
        print(f"accuracy {trainer.evaluate()['eval_accuracy']:.3f}")


if __name__ == "__main__":
    main()
