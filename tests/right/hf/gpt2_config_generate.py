"""A tiny GPT-2 from a config: a loop by hand with labels, an own padding mask, and greedy generation."""
import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

VOCAB, EOS, IGNORE = 12, 0, -100
config = GPT2Config(
    vocab_size=VOCAB, n_positions=24, n_embd=32, n_layer=1, n_head=2, bos_token_id=EOS, eos_token_id=EOS, pad_token_id=EOS,
    resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
)
model = GPT2LMHeadModel(config).to(device)


def counting(n, length=12):
    """Sequences that count upwards in steps of one, ended by EOS and padded with it."""
    start = torch.randint(1, 4, (n, 1), device=device)
    sizes = torch.randint(5, length - 3, (n, 1), device=device)
    index = torch.arange(length, device=device)
    ids = torch.where(index < sizes, start + index, EOS).clamp(max=VOCAB - 1)
    mask = (index <= sizes).long()  # the first EOS is real, the rest is padding
    labels = ids.masked_fill(mask == 0, IGNORE)
    return ids, mask, labels


optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.01)
model.train()
for step in range(60):
    ids, mask, labels = counting(24)
    out = model(input_ids=ids, attention_mask=mask, labels=labels)  # the model shifts the labels itself
    optimizer.zero_grad()
    out.loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step}: {out.loss.item():.3f}")

model.eval()
prompt = torch.tensor([[2, 3], [1, 2]], device=device)
with torch.inference_mode():
    generated = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=6, do_sample=False)
for row in generated.tolist():
    print(row)
