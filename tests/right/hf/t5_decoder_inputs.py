"""A tiny T5 from a config learns to copy: labels padded with -100, decoder inputs made by the model."""
import torch
from torch.utils.data import DataLoader
from transformers import T5Config, T5ForConditionalGeneration, get_linear_schedule_with_warmup

PAD, EOS, VOCAB = 0, 1, 14


def random_rows(n, seed):
    g = torch.Generator().manual_seed(seed)
    return [torch.randint(2, VOCAB, (int(k),), generator=g) for k in torch.randint(2, 5, (n,), generator=g)]


class Collator:
    def __call__(self, rows):
        eos = torch.tensor([EOS])
        ended = [torch.cat([r, eos]) for r in rows]
        ids = torch.nn.utils.rnn.pad_sequence(ended, batch_first=True, padding_value=PAD)
        mask = (ids != PAD).long()
        return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = T5Config(
        vocab_size=VOCAB, d_model=32, d_kv=16, d_ff=64, num_layers=1, num_heads=2, dropout_rate=0.0,
        pad_token_id=PAD, eos_token_id=EOS, decoder_start_token_id=PAD,
    )
    model = T5ForConditionalGeneration(config).to(device)
    loader = DataLoader(random_rows(320, 0), batch_size=32, shuffle=True, collate_fn=Collator())
    epochs = 6
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    scheduler = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=5, num_training_steps=epochs * len(loader))
    for epoch in range(epochs):
        model.train()
        total = torch.zeros((), device=device)
        for batch in loader:
            batch = {k: v.to(device) for k, v in batch.items()}
            loss = model(**batch).loss
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            total += loss.detach()
        if epoch % 2 == 1:
            print(f"epoch {epoch}: {total.item() / len(loader):.3f}")
    model.eval()
    batch = {k: v.to(device) for k, v in Collator()(random_rows(4, 1)).items()}
    with torch.inference_mode():
        out = model.generate(batch["input_ids"], attention_mask=batch["attention_mask"], max_new_tokens=6, do_sample=False)
    print("generated", tuple(out.shape), out[0].tolist())


if __name__ == "__main__":
    main()
